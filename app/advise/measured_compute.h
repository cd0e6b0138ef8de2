#pragma once

#include <cstddef>
#include <vector>

#include "app/advise/replay.h"
#include "app/train/options/choices.h"

namespace sotto {

// The computing of one rank, measured in this process.
struct MeasuredCompute {
  Layout layout;
  std::vector<BucketPlan> buckets;
  ComputeTimes times;  // medians over steps
  double share = 1;    // of the time in which the computing thread had a core; 1: always
  std::vector<std::vector<float>>
      gradients;  // one for each rank: the vectors that were offered in the first steps, which are not timed
};

// Trains as a run with these choices does, with one rank and without exchanges: first `gradients` steps, of which it
// keeps what would be exchanged, and then some that it times. ConfigError as for a run.
MeasuredCompute measure_compute(const Choices& choices, std::size_t gradients);

}  // namespace sotto
