#include "sotto/comm/deadline.h"

#include <thread>

namespace sotto {

using std::chrono::microseconds;
using std::chrono::milliseconds;

void Deadline::lap() const {
  const auto now = Clock::now();
  const auto since = measured_->since.exchange(now);
  if (since != Clock::time_point{}) measured_->last = now - since;
}

milliseconds Deadline::from_now() const {
  const auto since = measured_->since.load();
  return of(since == Clock::time_point{} ? last_lap() : std::max<Clock::duration>(last_lap(), Clock::now() - since));
}

milliseconds Deadline::of(Clock::duration lap) const {
  const auto allowed = std::chrono::duration_cast<milliseconds>(std::min<Clock::duration>(lap, longest));
  return std::clamp(slower * allowed, least_, longest);
}

Clock::duration Patience::moment() {
  const auto waited = Clock::now() - since_;
  long_ = waited > microseconds(100);
  return long_ ? std::clamp<Clock::duration>(waited / 16, microseconds(10), longest_) : Clock::duration::zero();
}

void Patience::pause(Clock::time_point wake) {
  const auto wait = moment();
  if (!long_) return std::this_thread::yield();
  std::this_thread::sleep_for(std::min<Clock::duration>(wait, wake - Clock::now()));
}

}  // namespace sotto
