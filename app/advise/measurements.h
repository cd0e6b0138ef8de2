#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "app/advise/replay.h"
#include "app/train/options/choices.h"

namespace sotto {

// Other ranks of this machine, which compute as long as this lives: ranks that share a machine also share its memory
// and caches, and take longer than one alone.
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
  double share = 1;    // of the time in which the computing thread had a core; 1: always
  std::vector<std::vector<float>>
      gradients;  // one for each rank: the vectors that were offered in the first steps, which are not timed
};

// Trains as a run with these choices does, with one rank and without exchanges: first `gradients` steps, of which it
// keeps what would be exchanged, and then some that it times. ConfigError as for a run.
MeasuredCompute measure_compute(const Choices& choices, std::size_t gradients);

// Measures it between two ranks over the default transport and the loopback. CommError.
HostCost measure_host_cost();

}  // namespace sotto
