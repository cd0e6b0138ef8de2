#pragma once

#include "sotto/core/timer.h"

namespace sotto {

// Makes a rank's computing take `factor` times as long, and `delay` seconds more a step, by sleeping: a slow machine,
// to see what an algorithm makes of one.
class Slowdown {
 public:
  Slowdown() = default;
  Slowdown(double factor, double delay) : factor_(factor), delay_(delay) {}

  // A step's computing begins.
  void begin(Clock::time_point now = Clock::now());
  // For so long it was no computing.
  void waited(Clock::duration duration) { waited_ += duration; }
  // When what has been computed until now would be computed on the slow machine.
  Clock::time_point until(Clock::time_point now) const;
  // Sleeps until then.
  void hold();

 private:
  double factor_ = 1;
  double delay_ = 0;
  Clock::time_point begin_{};
  Clock::duration slept_{}, waited_{};  // since then
};

}  // namespace sotto
