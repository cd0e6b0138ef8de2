#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "sotto/core/timer.h"

namespace sotto {

// Measures how long finished buckets wait for the exchanges of those before them (StepReport::queue). begin() and
// take() must not run at the same time.
class QueueMeter {
 public:
  struct Waited {
    double seconds = 0;  // sum over all buckets
    std::size_t buckets = 0;
    double mean() const { return seconds / static_cast<double>(std::max<std::size_t>(1, buckets)); }
    Waited& operator+=(const Waited& more) {
      seconds += more.seconds;
      buckets += more.buckets;
      return *this;
    }
  };

  explicit QueueMeter(std::size_t buckets) : ready_at_(buckets) {}

  // Call it before the bucket is handed to the thread that exchanges it.
  void ready(std::size_t bucket) { ready_at_[bucket] = Clock::now(); }
  // Call it on that thread, when the exchange begins.
  void begin(std::size_t bucket) {
    waited_ += {std::chrono::duration<double>(Clock::now() - ready_at_[bucket]).count(), 1};
  }
  // The waits of exchanges that began since the last call.
  Waited take() { return std::exchange(waited_, {}); }

 private:
  std::vector<Clock::time_point> ready_at_;
  Waited waited_;
};

}  // namespace sotto
