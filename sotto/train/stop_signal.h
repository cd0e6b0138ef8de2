#pragma once

#include <csignal>

namespace sotto {

// While it lives, SIGINT and SIGTERM are only noted, so that the step can be finished; another one, two
// seconds later or more, ends the process.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  static int caught();  // the signal's number, or 0

 private:
  struct sigaction old_int_ {};
  struct sigaction old_term_ {};
};

}  // namespace sotto
