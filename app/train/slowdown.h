#pragma once

#include "sotto/core/timer.h"

namespace sotto {

// Makes a rank's computing take `factor` times as long, plus `delay` seconds per step, by sleeping. This emulates a
// slow machine, to study how an algorithm copes.
class Slowdown {
 public:
  Slowdown() = default;
  Slowdown(double factor, double delay) : factor_(factor), delay_(delay) {}

  // Starts a step's computing.
  void begin(Clock::time_point now = Clock::now());
  // `duration` was spent waiting, not computing.
  void waited(Clock::duration duration) { waited_ += duration; }
  // When the slow machine would have computed what has been computed until `now`.
  Clock::time_point until(Clock::time_point now) const;
  // Sleeps until that time.
  void hold();

 private:
  double factor_ = 1;
  double delay_ = 0;
  Clock::time_point begin_{};
  Clock::duration slept_{}, waited_{};  // since `begin_`
};

}  // namespace sotto
