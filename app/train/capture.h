#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "app/train/captured_file.h"

namespace sotto {

struct CapturePlan {
  std::uint64_t every = 0;  // steps; 0: nothing is captured
  std::filesystem::path folder{};
  bool all_ranks = false;  // otherwise only the first that trains
  bool memory = false;     // also what the memory holds back after the step
  CaptureFormat format = CaptureFormat::sotto;
  std::uint64_t limit = 16'000'000'000;  // bytes of all files of this run in the folder

  bool due(std::uint64_t step) const { return every > 0 && step % every == 0; }
};

// Parses "every=N,dir=D". ConfigError.
CapturePlan read_capture(std::string_view option, std::string_view text);

// Writes one rank's own gradients, from before any exchange, to files (captured_file.h). Each rank that captures has
// the same share of the limit. A rank stops, and keeps what it has, when its share might not be enough for what it
// writes at the next step: so nothing is removed, and the first steps, in which gradients change most, are there.
class Capture {
 public:
  Capture(CapturePlan plan, int rank, int ranks);

  // Writes the vectors of a step, unless it has stopped. An empty `memory` is not written. FileError.
  void write(std::uint64_t step, const Layout& layout, std::span<const float> gradient, std::span<const float> memory);
  // Says once that the limit was reached; empty otherwise.
  std::string take_remark() { return std::exchange(remark_, {}); }

 private:
  std::uint64_t used(std::uint64_t step) const;

  CapturePlan plan_;
  std::optional<int> rank_;
  std::uint64_t share_;
  bool full_ = false;
  std::string remark_;
};

}  // namespace sotto
