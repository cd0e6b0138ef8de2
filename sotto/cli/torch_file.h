#pragma once

#include <cstddef>
#include <span>

#include "sotto/codec/gradient_file.h"
#include "sotto/core/file_reader.h"

namespace sotto {

// Whether a file begins like those of torch.save, which are zip archives.
bool is_torch_file(std::span<const std::byte> begin);
// What torch.save wrote: a floating-point tensor, or a list, tuple or dictionary of them, each a segment of its name
// and shape. It is LibTorch's own reader that reads it, which makes tensors and containers and runs no code that a
// pickle names. WireError says what is wrong with it.
GradientFile read_torch_file(const FileReader& file);

}  // namespace sotto
