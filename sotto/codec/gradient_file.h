#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "sotto/core/layout.h"

namespace sotto {

// A gradient, or another flat vector, that was read from a file: the values and the layout of their tensors.
struct GradientFile {
  Layout layout;
  std::vector<float> values;
};

// FileError if a value is NaN or infinite; names the file and the tensor.
void require_finite(const std::filesystem::path& path, const GradientFile& file);
// The values of a vector of this layout, one tensor after the other.
std::vector<float> without_padding(const Layout& layout, std::span<const float> values);

// In npy_file.cc:

// Whether a file begins like NumPy's .npy.
bool is_npy(std::span<const std::byte> file);
// Whether a file begins like an .npz, a zip archive of such files.
bool is_npz(std::span<const std::byte> file);
// Reads the array of a .npy file as one segment of the array's shape. It must have little-endian float16, float32 or
// float64 values in C order; otherwise WireError, which says what is wrong.
GradientFile read_npy(std::span<const std::byte> file);
// Writes the tensors of a vector one after the other, as one array of one dimension; whole or not at all. FileError.
void write_npy(const std::filesystem::path& path, const Layout& layout, std::span<const float> values);

}  // namespace sotto
