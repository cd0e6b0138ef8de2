#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <thread>

#include "sotto/algorithm/server/server.h"
#include "sotto/comm/mailbox.h"
#include "sotto/core/mutex.h"

namespace sotto {

// A server at work on a thread of its own, from the first step of all ranks until they rest.
class ServerThread {
 public:
  // Takes from `requests`. `on_failure` is called when it fails, so that nobody waits for its answers in vain.
  ServerThread(Server& server, Mailbox& requests, std::function<void()> on_failure);
  ~ServerThread();

  // Lets it work, if it rests: all ranks are about to take this step. What follows throws what made it fail.
  void work(std::uint64_t step, std::span<const float> parameters, Optimiser& optimiser);
  // Until every worker was answered in this step; returns their mean loss.
  double wait_for_step(std::uint64_t step);
  // Until all rest: then the server may be looked at.
  void wait_for_rest();
  // Throws what made it fail, if anything did.
  void check();
  // Of what it did since the last call.
  Timings take_timings();

 private:
  // What its thread and the others share.
  struct Shared {
    enum class State : std::uint8_t { resting, working, ending };
    State state = State::resting;
    std::exception_ptr error;      // then it is of no use any more
    std::uint64_t least_step = 0;  // as of the server
    double loss = 0;               // likewise
    Timings timings;
  };
  using State = Shared::State;

  void run();
  void serve();
  Clock::time_point serve_next(std::chrono::milliseconds most);
  void discard();
  void throw_error() const SOTTO_REQUIRES(mutex_);

  Server& server_;  // the thread's; at rest the others'
  Mailbox& requests_;
  std::function<void()> on_failure_;
  Mutex mutex_;
  Condition changed_;
  Shared shared_ SOTTO_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace sotto
