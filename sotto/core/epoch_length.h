#pragma once

#include <cstdint>
#include <limits>

namespace sotto {

// The length of an epoch: `batches` batches, of which a step takes `per_step`. It may be a fraction of steps: a step
// may begin in one epoch and end in the next, or be longer than an epoch. Neither number is 0.
struct EpochLength {
  std::uint64_t batches = 1, per_step = 1;

  static constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

  double steps() const { return static_cast<double>(batches) / static_cast<double>(per_step); }
  std::uint64_t epoch_of(std::uint64_t step) const { return step * per_step / batches; }
  // The first step that begins in this epoch or later; `never` if no number is large enough.
  std::uint64_t first_step_in(std::uint64_t epoch) const {
    if (epoch > (never - per_step) / batches) return never;
    return (epoch * batches + per_step - 1) / per_step;
  }
  // The epochs that have begun before this step.
  std::uint64_t begun_before(std::uint64_t step) const { return (step * per_step + batches - 1) / batches; }
};

}  // namespace sotto
