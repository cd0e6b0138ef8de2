#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "sotto/algorithm/server/server.h"
#include "sotto/comm/mailbox.h"

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
  Phases take_phases();

 private:
  void run();
  void serve();
  Clock::time_point serve_next(std::chrono::milliseconds most);
  void discard();
  void throw_error() const;  // REQUIRES the lock

  Server& server_;
  Mailbox& requests_;
  std::function<void()> on_failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool working_ = false;
  bool ending_ = false;
  std::exception_ptr error_;
  std::uint64_t least_step_ = 0;  // as of the server, for others to see
  double loss_ = 0;
  Phases phases_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace sotto
