#include "sotto/train/gradient_study.h"

#include <fmt/format.h>

#include <system_error>

#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/thread.h"
#include "sotto/train/held_back.h"

namespace sotto {

GradientStudy::GradientStudy(const Choices& choices, int rank, int ranks, int idle)
    : plan_(choices.capture),
      captures_(plan_.all_ranks && rank >= idle),
      measured_every_(static_cast<std::uint64_t>(choices.options.measure_errors)),
      stages_(choices.recipe.stages),
      memory_name_(choices.recipe.memory ? choices.recipe.memory.entry->name : ""),
      capture_(plan_, rank, ranks - idle) {
  std::error_code missing;
  if (plan_.every > 0 && !choices.options.resume && std::filesystem::is_directory(plan_.folder, missing) &&
      !captured_files(plan_.folder).empty()) {
    throw ConfigError(fmt::format("{}: {} holds the gradients of another run already; choose another folder",
                                  named("capture"), plan_.folder.string()));
  }
  // An error must not leave a run that has begun.
  if ((captures_ || rank == idle) && plan_.every > 0) make_folder(plan_.folder);
}

void GradientStudy::require_memory(Algorithm& algorithm, std::span<const BucketPlan> buckets) {
  if (!plan_.memory) return;
  std::vector<float> values(buckets.front().range.end);  // the first bucket is the end of the vector
  if (copy_held_back(algorithm, memory_name_, buckets, values)) return;
  throw ConfigError(
      fmt::format("{}: memory=true: no rank of this job has a whole memory of its own, because the aggregator or "
                  "algorithm splits it",
                  named("capture")));
}

void GradientStudy::begin(const std::filesystem::path& run_folder, std::uint64_t first_step, bool mine) {
  captures_ = captures_ || mine;
  if (measured_every_ == 0 || !mine) return;
  errors_ = std::make_unique<CodecErrorCsv>(make_codec(stages_));
  errors_->begin(run_folder, first_step);
}

std::span<float> GradientStudy::room(std::size_t elements) {
  finish();
  gradient_.resize(elements);
  return gradient_;
}

void GradientStudy::start(std::uint64_t step, const Layout& layout, Algorithm& algorithm,
                          std::span<const BucketPlan> buckets) {
  if (captures_ && needs_rest(step)) {
    memory_.resize(layout.size());
    copy_held_back(algorithm, memory_name_, buckets, memory_);
  }
  working_ = begin_work([this, step, &layout, buckets] { work(step, layout, buckets); });
}

void GradientStudy::work(std::uint64_t step, const Layout& layout, std::span<const BucketPlan> buckets) {
  if (captures(step)) capture_.write(step, layout, gradient_, memory_);
  if (measures(step)) errors_->add(step, layout, buckets, gradient_);
}

void GradientStudy::finish() {
  if (working_.valid()) working_.get();
}

}  // namespace sotto
