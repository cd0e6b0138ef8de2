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
  std::uint64_t every = 0;  // steps; 0: nothing is captured
  std::filesystem::path folder{};
};

// Parses "every=N,dir=D". ConfigError.
CapturePlan read_capture(std::string_view option, std::string_view text);

// Writes rank 0's own gradients, from before any exchange, to DIR/gradient-STEP.sotto (codec/gradient_file.h). It
// writes on a thread of its own, while training goes on.
class Capture {
 public:
  explicit Capture(CapturePlan plan) : plan_(std::move(plan)) {}
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  bool due(std::uint64_t step) const { return plan_.every > 0 && step % plan_.every == 0; }
  // Waits until the last gradient is written, and returns room for the next one, which is filled in while it is
  // computed. FileError if the last one could not be written.
  std::span<float> room(std::size_t elements);
  // Starts to write the gradient in the room. The layout must outlive this object.
  void write(std::uint64_t step, const Layout& layout);
  // Waits until the gradient is written; FileError.
  void finish();

 private:
  void write_file(std::uint64_t step, const Layout& layout) const;

  CapturePlan plan_;
  std::vector<float> values_;  // owned by the thread while one runs
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace sotto
