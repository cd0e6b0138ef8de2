#pragma once

#include <cfenv>

namespace sotto {

// While it lives, this thread rounds floats to the nearest and keeps denormal numbers, whatever its caller has set
// (torch.set_flush_denormal). Encoded and decoded values depend on this, and all threads and ranks must agree on them.
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
