#pragma once

#include <chrono>

namespace sotto {

using Clock = std::chrono::steady_clock;

// Seconds since construction or the last lap.
class Timer {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  double lap() {
    const auto now = Clock::now();
    const double passed = std::chrono::duration<double>(now - start_).count();
    start_ = now;
    return passed;
  }

 private:
  Clock::time_point start_ = Clock::now();
};

}  // namespace sotto
