#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <thread>

#include "sotto/algorithm/server/server.h"
#include "sotto/comm/mailbox.h"
#include "sotto/core/thread.h"

namespace sotto {

// Runs a server on its own thread, from the first step of all ranks until they rest.
class ServerThread {
 public:
  // Takes mail from `requests`. Calls `on_failure` when the server fails, so that nobody waits for its answers in vain.
  ServerThread(Server& server, Mailbox& requests, std::function<void()> on_failure);
  ~ServerThread();

  // Makes the server work, if it rests: rank r is about to take step number steps[r]. This and the functions below, up
  // to check(), throw the error that made it fail.
  void work(std::span<const std::uint64_t> steps, std::span<const float> parameters, Optimiser& optimiser);
  // Waits until Server::common_steps() is above `step`, or the workers meet; returns their mean loss.
  double wait_for_step(std::uint64_t step);
  // Waits until all rest: then the caller may use the server.
  void wait_for_rest();
  // Throws the error that made the server fail, if any did.
  void check();
  // The times of what it did since the last call.
  Timings take_timings();

 private:
  // What its thread and the others share.
  struct Shared {
    enum class State : std::uint8_t { resting, working, ending };
    State state = State::resting;
    Optimiser* optimiser = nullptr;  // while it works
    std::exception_ptr error;        // if set, the server works no more
    std::uint64_t common_steps = 0;  // as of Server::common_steps()
    bool meets = false;              // as of Server::meets()
    double loss = 0;                 // as of Server::loss()
    Timings timings;
  };
  using State = Shared::State;

  void run();
  void serve(Optimiser& optimiser);
  Clock::time_point serve_next(std::chrono::milliseconds most, Optimiser& optimiser);
  void discard();
  void throw_error() const SOTTO_REQUIRES(mutex_);

  Server& server_;  // its thread uses it; at rest the others may
  Mailbox& requests_;
  std::function<void()> on_failure_;
  Mutex mutex_;
  Condition changed_;
  Shared shared_ SOTTO_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace sotto
