#pragma once

#include <chrono>

#include "sotto/core/timer.h"

namespace sotto {

// Waits a moment between two looks at what others may have done: ranks may share cores, and a server may have a
// thousand clients, so the longer nothing has come, the longer.
class Patience {
 public:
  explicit Patience(Clock::duration longest = std::chrono::microseconds(200)) : longest_(longest) {}
  void progress() { since_ = Clock::now(); }
  bool is_long() const { return long_; }  // so long that it does no harm to look for other things, too
  Clock::duration moment();               // to wait now; zero: only let others run
  void pause(Clock::time_point wake);     // waits for it, no longer than until then

 private:
  Clock::duration longest_;
  Clock::time_point since_ = Clock::now();
  bool long_ = false;
};

}  // namespace sotto
