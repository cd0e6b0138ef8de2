#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <functional>

#include "sotto/comm/deadline.h"
#include "sotto/core/timer.h"

namespace sotto {

// Tells the thread that runs an io_context when to say to its peers that it is there, and which of them have been
// silent for too long. Time in which the thread did something else does not count: what peers said meanwhile may be
// unread. Do not run the io_context after this is destroyed.
class TcpPulse {
 public:
  // A connection that is silent for a quarter of the deadline is replaced, and after `least` at the earliest.
  static constexpr std::chrono::milliseconds least{2000}, longest = std::chrono::hours(1);

  // Calls `beat` four times in the longest silence that any peer with the same least deadline tolerates, while the
  // io_context runs.
  TcpPulse(asio::io_context& io, Deadline deadline, std::function<void()> beat);
  TcpPulse(const TcpPulse&) = delete;
  TcpPulse& operator=(const TcpPulse&) = delete;

  // Whether nothing was heard from a peer for too long, which was last heard, or first waited for, at that time.
  bool too_silent(Clock::time_point heard) const;

 private:
  void wait();

  Deadline deadline_;
  std::function<void()> beat_;
  asio::steady_timer timer_;
  Clock::time_point attentive_ = Clock::now();  // since then the thread has run the io_context
};

}  // namespace sotto
