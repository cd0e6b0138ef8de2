#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/codec/gradient_file.h"
#include "sotto/core/layout.h"

namespace sotto {

// How captured vectors are written: with names and shapes as safetensors, or as one array without names in NumPy's
// format.
enum class CaptureFormat : std::uint8_t { safetensors, npy };
// Nothing if no format has this name.
std::optional<CaptureFormat> capture_format(std::string_view name);

// A file that a run captured. Its name tells its contents: gradient-000100.safetensors for the gradient of step 100
// (gradient-000100-r2.safetensors if all ranks capture), and memory-000100.safetensors for the residual after that
// step.
struct CapturedFile {
  std::filesystem::path folder;
  bool memory = false;
  std::uint64_t step = 0;
  std::optional<int> rank{};  // none: only the first rank that trains captures
  CaptureFormat format = CaptureFormat::safetensors;

  std::filesystem::path path() const;
  // Writes the complete file or none. FileError.
  void write(const Layout& layout, std::span<const float> values) const;
  // FileError. An array of NumPy is one tensor called `values`.
  GradientFile read() const;
};

// Whether the bytes of a file begin like safetensors.
bool is_safetensors(std::span<const std::byte> file);
// Reads the tensors of floats in a file of safetensors. FileError.
GradientFile read_safetensors_vector(const std::filesystem::path& path);

// Nothing for a path that no capture would write.
std::optional<CapturedFile> captured_file(const std::filesystem::path& path);
// The captured files of a folder by step, rank and kind; other files are left out. FileError if there is no folder.
std::vector<CapturedFile> captured_files(const std::filesystem::path& folder);
// The most bytes that a captured vector of this layout takes on the disk, in any format.
std::uint64_t most_captured_bytes(const Layout& layout);

struct CapturePlan {
  std::uint64_t every = 0;  // steps; 0: nothing is captured
  std::filesystem::path folder{};
  bool all_ranks = false;  // otherwise only the first that trains
  bool memory = false;     // also the residual after the step
  CaptureFormat format = CaptureFormat::safetensors;
  std::uint64_t limit = 16'000'000'000;  // bytes of all files of this run in the folder

  bool due(std::uint64_t step) const { return every > 0 && step % every == 0; }
};

// Parses "every=N,dir=D". ConfigError.
CapturePlan read_capture(std::string_view option, std::string_view text);

// Writes one rank's own gradients, from before any exchange, to files (CapturedFile). Each rank that captures has
// the same share of the limit. A rank stops when its share might not be enough for the files of the next step. It
// removes none, so the first steps, in which gradients change most, are there.
class Capture {
 public:
  Capture(CapturePlan plan, int rank, int ranks);

  // Writes the vectors of a step, unless it has stopped. An empty `memory` is not written. FileError.
  void write(std::uint64_t step, const Layout& layout, std::span<const float> gradient, std::span<const float> memory);
  // A text that says once that the limit was reached; empty otherwise.
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
