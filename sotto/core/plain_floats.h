#pragma once

#include <cfenv>

namespace sotto {

// While it lives, floats of this thread are rounded to the nearest and denormal ones are numbers, whatever its owner
// has set (torch.set_flush_denormal): what is encoded and decoded depends on it, and all threads and ranks must agree.
class PlainFloats {
 public:
  PlainFloats() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~PlainFloats() { std::fesetenv(&before_); }
  PlainFloats(const PlainFloats&) = delete;
  PlainFloats& operator=(const PlainFloats&) = delete;

 private:
  std::fenv_t before_;
};

}  // namespace sotto
