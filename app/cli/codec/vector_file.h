#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "sotto/codec/gradient_file.h"
#include "sotto/core/open_file.h"

namespace sotto {

// Reads the vector in a file. The first bytes tell safetensors, NumPy's
// .npy and tensors of torch.save from each other; a name that ends in .f32, .raw or .bin means raw little-endian
// float32. FileError names the file and what is wrong with it.
GradientFile read_vector(const std::filesystem::path& path);

// Whether a file begins like a zip archive, which torch.save writes.
bool is_torch_file(std::span<const std::byte> begin);
// Reads a file of torch.save: a floating-point tensor, or a list, tuple or dictionary of them. Each tensor becomes a
// segment with its name and shape. LibTorch's own reader reads the file; it makes tensors and containers and runs no
// code that a pickle names. WireError says what is wrong with the file.
GradientFile read_torch_file(const FileReader& file);

}  // namespace sotto
