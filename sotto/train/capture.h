#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "sotto/core/layout.h"

namespace sotto {

struct CapturePlan {
  std::uint64_t every = 0;  // steps; 0: none is captured
  std::filesystem::path folder{};
};

// From "every=N,dir=D"; empty: none. ConfigError.
CapturePlan read_capture(std::string_view option, std::string_view text);

// Writes rank 0's own gradients, as they are before any exchange, to DIR/gradient-STEP.sotto (codec/gradient_file.h),
// on a thread of its own beside the steps that follow.
class Capture {
 public:
  explicit Capture(CapturePlan plan) : plan_(std::move(plan)) {}
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  bool due(std::uint64_t step) const { return plan_.every > 0 && step % plan_.every == 0; }
  // Room for the gradient of a step, to be filled in while it is computed, once the last one is written. FileError of
  // that one.
  std::span<float> room(std::size_t elements);
  // Begins to write what is there. The layout must outlive it.
  void write(std::uint64_t step, const Layout& layout);
  // Until it is written; FileError.
  void finish();

 private:
  void write_file(std::uint64_t step, const Layout& layout) const;

  CapturePlan plan_;
  std::vector<float> values_;  // the thread's, while there is one
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace sotto
