#include "app/train/slowdown.h"

#include <thread>

namespace sotto {

void Slowdown::begin(Clock::time_point now) {
  begin_ = now;
  slept_ = waited_ = {};
}

Clock::time_point Slowdown::until(Clock::time_point now) const {
  const std::chrono::duration<double> computed = now - begin_ - slept_ - waited_;
  const std::chrono::duration<double> wanted(computed.count() * factor_ + delay_);
  return begin_ + waited_ + std::chrono::ceil<Clock::duration>(wanted);
}

void Slowdown::hold() {
  if (factor_ == 1 && delay_ == 0) return;
  const auto now = Clock::now();
  std::this_thread::sleep_until(until(now));
  slept_ += Clock::now() - now;
}

}  // namespace sotto
