#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>

#include "sotto/core/timer.h"

namespace sotto {

// How long an operation waits for a peer: the least deadline, which the user gives, or ten times as long as a step of
// this rank takes, if that is more, because another rank may be that much slower. Nothing is measured before the first
// lap(). Copies share what was measured.
class Deadline {
 public:
  // Longer ones are cut to this: added to the time of a clock they would overflow.
  static constexpr std::chrono::milliseconds longest = std::chrono::hours(24 * 365 * 10);
  static constexpr int slower = 10;

  template <class Rep, class Period>
  Deadline(std::chrono::duration<Rep, Period> least)
      : least_(std::min(std::chrono::duration_cast<std::chrono::milliseconds>(least), longest)) {}

  // Called after each step that ends in an exchange: the next one will take about as long.
  void lap() const {
    const auto now = Clock::now();
    const auto since = measured_->since.exchange(now);
    if (since != Clock::time_point{}) measured_->last = now - since;
  }

  std::chrono::milliseconds least() const { return least_; }
  std::chrono::milliseconds last_lap() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(measured_->last.load());
  }
  // For an operation that begins now. The present step counts, too: it may be longer than the last one.
  std::chrono::milliseconds from_now() const {
    const auto since = measured_->since.load();
    return of(since == Clock::time_point{} ? last_lap() : std::max<Clock::duration>(last_lap(), Clock::now() - since));
  }
  // For a thread that looks again and again how long a peer has been silent: the present step grows meanwhile.
  std::chrono::milliseconds by_last_lap() const { return of(last_lap()); }

 private:
  std::chrono::milliseconds of(Clock::duration lap) const {
    const auto allowed = std::chrono::duration_cast<std::chrono::milliseconds>(std::min<Clock::duration>(lap, longest));
    return std::clamp(slower * allowed, least_, longest);
  }

  struct Measured {
    std::atomic<Clock::time_point> since{};
    std::atomic<Clock::duration> last{};
  };
  std::chrono::milliseconds least_;
  std::shared_ptr<Measured> measured_ = std::make_shared<Measured>();
};

}  // namespace sotto
