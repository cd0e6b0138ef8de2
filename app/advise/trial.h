#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "app/advise/measured_compute.h"
#include "sotto/aggregate/recipe.h"

namespace sotto {

// The record of a method that averaged the gradients of some ranks. Its own code did that; the ranks were threads of
// this process that worked one at a time.
struct Trial {
  std::vector<StepTrace> steps;
  double bytes_sent = 0;      // a step, of the rank that sends most
  double relative_error = 0;  // |result - mean| / |mean|, of the last step; with a memory, of the first one
  std::string aggregator, remark;
};

struct TrialOptions {
  int ranks = 2;
  int codec_threads = 1;
  double lr = 0;
  std::uint64_t seed = 1;
  std::size_t steps = 3;  // that are kept; one goes before them, in which aggregators choose and warm up
  std::chrono::milliseconds deadline{std::chrono::minutes(10)};
};

// ConfigError if the method does not suit these buckets, NumericError for a gradient that it cannot send.
Trial try_method(const Recipe& recipe, const MeasuredCompute& compute, const TrialOptions& options);

// The same steps with the time of each piece of work replaced by its median over the steps, so that other work on this
// machine does not count. Steps that exchange differently from the first one keep their times.
void smooth(std::vector<StepTrace>& steps);

}  // namespace sotto
