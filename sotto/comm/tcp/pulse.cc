#include "sotto/comm/tcp/pulse.h"

#include <algorithm>
#include <utility>

namespace sotto {
namespace {

constexpr int beats = 4;  // in the longest silence

std::chrono::milliseconds silence_within(std::chrono::milliseconds deadline) {
  return std::clamp<std::chrono::milliseconds>(deadline / 4, TcpPulse::least, TcpPulse::longest);
}

}  // namespace

TcpPulse::TcpPulse(asio::io_context& io, Deadline deadline, std::function<void()> beat)
    : deadline_(std::move(deadline)), beat_(std::move(beat)), timer_(io) {
  wait();
}

bool TcpPulse::too_silent(Clock::time_point heard) const {
  return Clock::now() - std::max(heard, attentive_) >= silence_within(deadline_.by_last_lap());
}

// A peer whose steps are shorter tolerates less than this rank does, but no less than what all ranks have been given.
void TcpPulse::wait() {
  const auto period = silence_within(deadline_.least()) / beats;
  timer_.expires_after(period);
  timer_.async_wait([this, period](const asio::error_code& stopped) {
    if (stopped) return;
    const auto now = Clock::now();
    if (now - timer_.expiry() > period / 2) attentive_ = now;  // the thread was away
    beat_();
    wait();
  });
}

}  // namespace sotto
