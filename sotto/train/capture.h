#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "sotto/core/layout.h"

namespace sotto {

// Writes rank 0's own gradients, as they are before any exchange, to DIR/gradient-STEP.sotto (codec/gradient_file.h).
class Capture {
 public:
  // From "every=N,dir=D"; empty: none. ConfigError names what is wrong.
  explicit Capture(std::string_view text);

  bool due(std::uint64_t step) const { return every_ > 0 && step % every_ == 0; }
  // Room for the gradient of a step, to be filled in while it is computed.
  std::span<float> room(std::size_t elements);
  void write(std::uint64_t step, const Layout& layout) const;

 private:
  std::uint64_t every_ = 0;
  std::filesystem::path folder_;
  std::vector<float> values_;
};

}  // namespace sotto
