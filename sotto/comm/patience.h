#pragma once

#include <chrono>

#include "sotto/core/timer.h"

namespace sotto {

// Waits a moment between two polls. The pauses grow while nothing happens, since ranks may share cores, and a server
// may have a thousand clients.
class Patience {
 public:
  explicit Patience(Clock::duration longest = std::chrono::microseconds(200)) : longest_(longest) {}
  void progress() { since_ = Clock::now(); }
  bool is_long() const { return long_; }  // nothing has happened for long: time to check slower things
  Clock::duration moment();               // the time to wait now; zero: only yields
  void pause(Clock::time_point wake);     // waits for a moment, but not beyond `wake`

 private:
  Clock::duration longest_;
  Clock::time_point since_ = Clock::now();
  bool long_ = false;
};

}  // namespace sotto
