#include "sotto/comm/patience.h"

#include <algorithm>
#include <thread>

namespace sotto {

using std::chrono::microseconds;

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
