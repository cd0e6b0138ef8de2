#pragma once

#include <signal.h>

#include "sotto/launch/spawn.h"

namespace sotto {

// Blocks SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGCHLD while it lives, and hands them over one by one instead. SIGHUP
// stays ignored where it is (nohup).
class Signals {
 public:
  Signals();   // Error if there is no descriptor left
  ~Signals();  // restores the signal mask
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int descriptor() const { return descriptor_.get(); }  // readable if a signal is pending
  int next();                                           // the number of the next pending signal, or 0

 private:
  sigset_t before_{};
  Descriptor descriptor_;
};

}  // namespace sotto
