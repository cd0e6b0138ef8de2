#include "sotto/algorithm/local/local.h"

#include <fmt/format.h>

#include "sotto/algorithm/local/local_steps.h"

namespace sotto {
namespace {

std::uint64_t whole(std::int64_t option) { return static_cast<std::uint64_t>(option); }

// Whether a memory may have to send more than half of a difference later. That part is added to later differences, and
// a large momentum on top of it goes too far.
bool sends_late(const AlgorithmOptions& options, std::span<const BucketPlan> buckets) {
  for (const Phase& phase : options.phases) {
    if (phase.recipe.by_itself()) return true;  // power, which has its own memory
    if (!phase.recipe.memory || !phase.recipe.memory.entry->holds) continue;
    const auto codec = make_codec(phase.recipe.stages);
    for (const BucketPlan& bucket : buckets) {
      if (contraction_of(codec->contract(bucket.layout)) < 0.5) return true;
    }
  }
  return false;
}

}  // namespace

std::unique_ptr<Algorithm> make_local(const LocalOptions& own, const AlgorithmOptions& options,
                                      std::span<const BucketPlan> buckets, Communicator& communicator) {
  const LocalPlan plan{.name = "local", .h = whole(own.h), .after = whole(own.after), .outer = {}};
  return std::make_unique<LocalSteps>(plan, options, buckets, communicator);
}

std::unique_ptr<Algorithm> make_slowmo(const SlowmoOptions& own, const AlgorithmOptions& options,
                                       std::span<const BucketPlan> buckets, Communicator& communicator) {
  const LocalPlan plan{.name = "slowmo",
                       .h = whole(own.h),
                       .outer = {.lr = own.lr, .momentum = own.momentum, .in_rates = true},
                       .buffers = own.buffers == "reset"     ? Buffers::reset
                                  : own.buffers == "average" ? Buffers::average
                                                             : Buffers::keep};
  return std::make_unique<LocalSteps>(plan, options, buckets, communicator);
}

std::string DilocoOptions::problem() const {
  if (overlap >= h) {
    return fmt::format("overlap={} must be below h={}: what was exchanged is applied before the next exchange", overlap,
                       h);
  }
  if (overlap == 0 && alpha != DilocoOptions{}.alpha) {
    return "alpha needs an overlap above 0: without one, the model is replaced";
  }
  return "";
}

std::unique_ptr<Algorithm> make_diloco(const DilocoOptions& own, const AlgorithmOptions& options,
                                       std::span<const BucketPlan> buckets, Communicator& communicator) {
  const bool late = !own.momentum && sends_late(options, buckets);
  const double momentum = own.momentum.value_or(late ? 0.5 : 0.9);
  const LocalPlan plan{
      .name = "diloco",
      .h = whole(own.h),
      .shards = static_cast<std::size_t>(own.shards),
      .overlap = whole(own.overlap),
      .alpha = own.alpha,
      .outer = {.lr = own.lr, .momentum = momentum, .nesterov = momentum > 0},
      .remark = late ? "diloco: outer momentum 0.5, as a memory sends most of a difference later" : ""};
  return std::make_unique<LocalSteps>(plan, options, buckets, communicator);
}

}  // namespace sotto
