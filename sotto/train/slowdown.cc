#include "sotto/train/slowdown.h"

#include <thread>

namespace sotto {

void Slowdown::begin() {
  begin_ = Clock::now();
  slept_ = waited_ = {};
}

void Slowdown::waited(double seconds) {
  waited_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

void Slowdown::hold() {
  if (factor_ == 1 && delay_ == 0) return;
  const auto now = Clock::now();
  const std::chrono::duration<double> computed = now - begin_ - slept_ - waited_;
  const std::chrono::duration<double> wanted(computed.count() * factor_ + delay_);
  std::this_thread::sleep_until(begin_ + waited_ + std::chrono::ceil<Clock::duration>(wanted));
  slept_ += Clock::now() - now;
}

}  // namespace sotto
