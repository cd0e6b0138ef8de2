#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/codec/gradient_file.h"
#include "sotto/core/layout.h"

namespace sotto {

// How captured vectors are written: with names and shapes in our own format (codec/gradient_file.h) or as safetensors,
// or as one array without names in NumPy's.
enum class CaptureFormat : std::uint8_t { sotto, npy, safetensors };
// Nothing for a name that is none.
std::optional<CaptureFormat> capture_format(std::string_view name);

// A file that a run captured. Its name says what it is: gradient-000100.sotto, or gradient-000100-r2.sotto where all
// ranks capture, and memory-000100.sotto for what a memory held back after that step.
struct CapturedFile {
  std::filesystem::path folder;
  bool memory = false;
  std::uint64_t step = 0;
  std::optional<int> rank{};  // none: only the first rank that trains captures
  CaptureFormat format = CaptureFormat::sotto;

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

// Nothing for a path that no capture gives a file.
std::optional<CapturedFile> captured_file(const std::filesystem::path& path);
// The captured files of a folder by step, rank and kind; other files are left out. FileError if there is no folder.
std::vector<CapturedFile> captured_files(const std::filesystem::path& folder);
// The most bytes that a captured vector of this layout takes on the disk, in any format.
std::uint64_t most_captured_bytes(const Layout& layout);

}  // namespace sotto
