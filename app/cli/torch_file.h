#pragma once

#include <cstddef>
#include <span>

#include "sotto/codec/gradient_file.h"
#include "sotto/core/file_reader.h"

namespace sotto {

// Whether a file begins like a file of torch.save, which is a zip archive.
bool is_torch_file(std::span<const std::byte> begin);
// Reads a file of torch.save: a floating-point tensor, or a list, tuple or dictionary of them. Each tensor becomes a
// segment with its name and shape. LibTorch's own reader reads the file; it makes tensors and containers and runs no
// code that a pickle names. WireError says what is wrong with the file.
GradientFile read_torch_file(const FileReader& file);

}  // namespace sotto
