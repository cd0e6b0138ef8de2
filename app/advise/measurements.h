#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "app/advise/replay.h"
#include "app/train/options/choices.h"

namespace sotto {

// Makes other ranks of this machine compute as long as this object lives. Ranks of one machine share its memory and
// caches, and so compute more slowly than a rank alone.
class Companions {
 public:
  Companions(const Choices& choices, std::size_t count);  // ConfigError as for a run
  ~Companions();
  Companions(const Companions&) = delete;
  Companions& operator=(const Companions&) = delete;

 private:
  std::vector<std::unique_ptr<Task>> tasks_;
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

// The computing of one rank, measured in this process.
struct MeasuredCompute {
  Layout layout;
  std::vector<BucketPlan> buckets;
  ComputeTimes times;  // medians over steps
  double share = 1;    // the share of the time in which the computing thread had a core
  std::vector<std::vector<float>>
      gradients;  // one for each rank: the vectors to exchange in the first steps, which are not timed
};

// Trains as a run with these choices does, with one rank and without exchanges: first `gradients` steps, of which it
// keeps the vectors that would be exchanged, and then steps that it times. ConfigError as for a run.
MeasuredCompute measure_compute(const Choices& choices, std::size_t gradients);

// Measures the cost between two ranks, over the default transport and the loopback device. CommError.
HostCost measure_host_cost();

}  // namespace sotto
