#pragma once

#include <filesystem>

#include "sotto/codec/gradient_file.h"

namespace sotto {

// The vector of a file: a gradient that `sotto train --capture` wrote, NumPy's .npy, tensors of torch.save, or else raw
// little-endian float32. What it is its first bytes say. FileError, which names the file and what is wrong with it.
GradientFile read_vector(const std::filesystem::path& path);

}  // namespace sotto
