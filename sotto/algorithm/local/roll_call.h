#pragma once

#include <atomic>
#include <semaphore>

#include "sotto/comm/communicator.h"

namespace sotto {

// A rank that computes nothing waits for the others at the end of a round of their own steps, which may take longer
// than the deadline. So all ranks tell each other several times within the deadline that they live, until all have
// come.
class RollCall {
 public:
  // On the thread that communicates, once for each round. Returns when all ranks have come, or this one has left.
  // Collective.
  void run(Communicator& communicator);
  // On the thread that computes, once for each run(): this rank has come to the end of the round.
  void come() { calls_.release(); }
  // This rank fails, and others will find it gone.
  void leave() {
    has_left_ = true;
    calls_.release();
  }

 private:
  std::counting_semaphore<> calls_{0};  // of come() and leave() that run() has not seen
  std::atomic<bool> has_left_ = false;
};

}  // namespace sotto
