#pragma once

#include <filesystem>

#include "sotto/codec/gradient_file.h"

namespace sotto {

// The vector of a file: a gradient that `sotto train --capture` wrote, NumPy's .npy or tensors of torch.save, as its
// first bytes say; or raw little-endian float32, as its name says, which ends in .f32, .raw or .bin. FileError, which
// names the file and what is wrong with it.
GradientFile read_vector(const std::filesystem::path& path);
// FileError, which names the file and the tensor, where a value is NaN or infinite.
void require_finite(const std::filesystem::path& path, const GradientFile& file);

}  // namespace sotto
