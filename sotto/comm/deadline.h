#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>

#include "sotto/core/timer.h"

namespace sotto {

// How long operations wait for a peer, which follows measured step times. Another rank may be up to ten times as slow
// as this one, so it is ten times as long as a step takes, but at least the deadline that the user gave. Without lap()
// it is that deadline. Copies share what was measured.
class Deadline {
 public:
  // Longer ones are cut to this: added to the time of a clock they would overflow.
  static constexpr std::chrono::milliseconds longest = std::chrono::hours(24 * 365 * 10);
  static constexpr int slower = 10;

  template <class Rep, class Period>
  Deadline(std::chrono::duration<Rep, Period> least)
      : least_(std::min(std::chrono::duration_cast<std::chrono::milliseconds>(least), longest)) {}

  // The ranks have made an exchange, and will make the next one after about the same time.
  void lap() const {
    const auto now = Clock::now();
    const auto since = measured_->since.exchange(now);
    if (since != Clock::time_point{}) measured_->last = now - since;
  }

  std::chrono::milliseconds least() const { return least_; }
  std::chrono::milliseconds last_lap() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(measured_->last.load());
  }
  // For an operation that waits from now on: this rank has perhaps computed for longer than in the last lap.
  std::chrono::milliseconds from_now() const {
    const auto since = measured_->since.load();
    return of(since == Clock::time_point{} ? last_lap() : std::max<Clock::duration>(last_lap(), Clock::now() - since));
  }
  // For those that look again and again whether a peer has been silent for that long.
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
