#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <vector>

#include "sotto/comm/communicator.h"
#include "sotto/core/state_copy.h"

namespace sotto {

// Gives newcomers the state of rank `donor`, on its own thread, so that others may train meanwhile. It is sent
// over the link of each rank once: the donor sends each chunk to the first newcomer, and each newcomer passes it on to
// the next one while it receives another. So it takes about as long as one rank needs to receive the state, however
// many newcomers there are. Other ranks keep their values.
class NewcomerState final {
 public:
  // Visits the same components on all ranks. Those of a newcomer may have other lengths before.
  using Visit = std::function<void(StateCopy&)>;

  // Collective. The donor's state is that of now, of which this keeps a copy. Newcomers pass it on in the order given.
  NewcomerState(std::unique_ptr<Communicator> communicator, int donor, const std::vector<int>& newcomers,
                const Visit& visit);
  ~NewcomerState();  // what is on its way may be lost
  NewcomerState(const NewcomerState&) = delete;
  NewcomerState& operator=(const NewcomerState&) = delete;

  // Whether this rank has received, and passed on, all that it should; waits for it, but not longer than that. Throws
  // what the thread threw.
  bool wait_for(std::chrono::milliseconds time);
  // What wait_for() waited for: its bytes, and the seconds that they took. REQUIRES that it is there.
  std::uint64_t bytes() const { return bytes_; }
  double seconds() const { return seconds_; }
  // Gives a newcomer what has arrived. REQUIRES wait_for().
  void give(const Visit& visit);

 private:
  class Chain;

  std::unique_ptr<Communicator> communicator_;
  StateCopy state_;
  std::atomic<bool> stop_ = false;
  std::uint64_t bytes_ = 0;
  double seconds_ = 0;
  std::future<void> passing_;  // last: its destructor waits for what uses the others; not valid: nothing to do
};

}  // namespace sotto
