#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "sotto/core/layout.h"

namespace sotto {

// A gradient as it was captured in training: the flat vector with its layout. Little-endian: "SOTTOGRD", version (1,
// u32), CRC-32 of all that follows (u32); step, elements (u64); number of segments (u32), each with the length of its
// name (u32), name, offset (u64), number of dimensions (u32), dimensions (u64); a Zstandard frame of the float32
// values.
struct GradientFile {
  std::uint64_t step = 0;
  Layout layout;
  std::vector<float> values;
};

// Complete or not there at all. FileError names the file.
void write_gradient_file(const std::filesystem::path& path, std::uint64_t step, const Layout& layout,
                         std::span<const float> values);
GradientFile read_gradient_file(const std::filesystem::path& path);
// Whether a file begins like one.
bool is_gradient_file(std::span<const std::byte> file);

}  // namespace sotto
