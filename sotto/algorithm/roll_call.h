#pragma once

#include <cstdint>

#include "sotto/comm/communicator.h"
#include "sotto/core/mutex.h"

namespace sotto {

// A rank that computes nothing waits for the others at their next exchange, perhaps longer than the deadline. So all
// ranks tell each other, each quarter of the deadline, that they live, until all have come to it.
class RollCall {
 public:
  // On the thread that computes, before run() is posted.
  void begin() { move_to(Place::computing); }
  // On the thread that communicates. Returns when all ranks have come, or this one has left. Collective.
  void run(Communicator& communicator);
  // On the thread that computes: this rank has come to the exchange.
  void come() { move_to(Place::here); }
  // This rank fails, and others will find it gone.
  void leave() { move_to(Place::gone); }

 private:
  enum class Place : std::uint8_t { computing, here, gone };
  void move_to(Place place);

  Mutex mutex_;
  Condition moved_;
  Place place_ SOTTO_GUARDED_BY(mutex_) = Place::here;
};

}  // namespace sotto
