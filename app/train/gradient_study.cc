#include "app/train/gradient_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/state.h"
#include "sotto/core/thread.h"

namespace sotto {
namespace {

// Buckets are held one after the other, and lie in the model from its end to its beginning.
class HeldBack final : public StateVisitor {
 public:
  HeldBack(std::string_view memory, std::span<const BucketPlan> buckets, std::vector<float>& values)
      : name_(fmt::format("memory.{}", memory)), buckets_(buckets), values_(values) {}

  void visit(std::string_view name, std::vector<float>& values) override {
    std::size_t size = 0;
    for (const BucketPlan& plan : buckets_) size += plan.range.size();
    const std::string_view last = name.substr(name.rfind('/') + 1);
    if ((last != name_ && last != name_ + ".v") || values.size() != size || found) return;
    found = true;
    auto from = values.begin();
    for (const BucketPlan& plan : buckets_) {
      const auto to = from + static_cast<std::ptrdiff_t>(plan.range.size());
      std::copy(from, to, values_.begin() + static_cast<std::ptrdiff_t>(plan.range.begin));
      from = to;
    }
  }
  void visit(std::string_view /*name*/, std::vector<std::uint8_t>& /*bytes*/) override {}
  void visit(std::string_view /*name*/, std::uint64_t& /*value*/) override {}

  bool found = false;

 private:
  std::string name_;
  std::span<const BucketPlan> buckets_;
  std::vector<float>& values_;
};

// Copies what the memory of an algorithm's recipe holds back to `values`, a vector of the model's layout. In the state
// of an algorithm that is called memory.NAME, or memory.NAME.v where a memory has several vectors. Returns false if
// there is none of that name and size, because the memory is split among ranks. REQUIRES drain().
bool copy_held_back(Algorithm& algorithm, std::string_view memory, std::span<const BucketPlan> buckets,
                    std::vector<float>& values) {
  HeldBack visitor(memory, buckets, values);
  algorithm.visit_state(visitor);
  return visitor.found;
}

std::string_view memory_of(const Choices& choices) {
  return choices.recipe.memory ? choices.recipe.memory.entry->name : "";
}

}  // namespace

void check_capture_folder(const Choices& choices) {
  const CapturePlan& plan = choices.capture;
  std::error_code missing;
  if (plan.every == 0 || choices.options.resume || !std::filesystem::is_directory(plan.folder, missing)) return;
  if (captured_files(plan.folder).empty()) return;
  throw ConfigError(fmt::format("{}: {} holds the gradients of another run already; choose another folder",
                                named("capture"), plan.folder.string()));
}

void check_captured_memory(const Choices& choices, Algorithm& algorithm, std::span<const BucketPlan> buckets) {
  if (!choices.capture.memory) return;
  std::vector<float> values(buckets.front().range.end);  // the first bucket is the end of the vector
  if (copy_held_back(algorithm, memory_of(choices), buckets, values)) return;
  throw ConfigError(
      fmt::format("{}: memory=true: no rank of this job has a whole memory of its own, because the aggregator or "
                  "algorithm splits it",
                  named("capture")));
}

GradientStudy::GradientStudy(const Choices& choices, int rank, int ranks, int idle)
    : plan_(choices.capture),
      captures_(plan_.all_ranks && rank >= idle),
      measured_every_(static_cast<std::uint64_t>(choices.options.measure_errors)),
      stages_(choices.recipe.stages),
      memory_name_(memory_of(choices)),
      capture_(plan_, rank, ranks - idle) {
  check_capture_folder(choices);
  // An error must not leave a run that has begun.
  if ((captures_ || rank == idle) && plan_.every > 0) make_folder(plan_.folder);
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
