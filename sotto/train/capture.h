#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "sotto/core/layout.h"

namespace sotto {

// Writes rank 0's own gradients, as they are before any exchange, to DIR/gradient-STEP.sotto (codec/gradient_file.h),
// on a thread of its own beside the steps that follow.
class Capture {
 public:
  // From "every=N,dir=D"; empty: none. ConfigError names what is wrong.
  explicit Capture(std::string_view text);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  bool due(std::uint64_t step) const { return every_ > 0 && step % every_ == 0; }
  // Room for the gradient of a step, to be filled in while it is computed, once the last one is written. FileError of
  // that one.
  std::span<float> room(std::size_t elements);
  // Begins to write what is there. The layout must outlive it.
  void write(std::uint64_t step, const Layout& layout);
  // Until it is written; FileError.
  void finish();

 private:
  void write_file(std::uint64_t step, const Layout& layout) const;

  std::uint64_t every_ = 0;
  std::filesystem::path folder_;
  std::vector<float> values_;  // the thread's, while there is one
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace sotto
