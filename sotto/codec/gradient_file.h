#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "sotto/core/layout.h"

namespace sotto {

// A gradient captured in training: the flat vector with its layout. Format, little-endian: "SOTTOGRD", version (1,
// u32), CRC-32 of everything after it (u32); step, elements (u64); number of segments (u32), each with the length of
// its name (u32), name, offset (u64), number of dimensions (u32), dimensions (u64); then the float32 values as a
// Zstandard frame.
struct GradientFile {
  std::uint64_t step = 0;
  Layout layout;
  std::vector<float> values;
};

// Writes the complete file or none. FileError names the file.
void write_gradient_file(const std::filesystem::path& path, std::uint64_t step, const Layout& layout,
                         std::span<const float> values);
GradientFile read_gradient_file(const std::filesystem::path& path);
// FileError if a value is NaN or infinite; names the file and the tensor.
void require_finite(const std::filesystem::path& path, const GradientFile& file);
// The values of a vector of this layout, one tensor after the other.
std::vector<float> without_padding(const Layout& layout, std::span<const float> values);
// Whether the bytes of a file begin like a gradient file.
bool is_gradient_file(std::span<const std::byte> file);

}  // namespace sotto
