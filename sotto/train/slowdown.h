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
  void begin();
  // So many seconds of it were no computing.
  void waited(double seconds);
  // Until what has been computed since then would be on the slow machine.
  void hold();

 private:
  double factor_ = 1;
  double delay_ = 0;
  Clock::time_point begin_{};
  Clock::duration slept_{}, waited_{};  // since then
};

}  // namespace sotto
