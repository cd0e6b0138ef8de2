#pragma once

#include <filesystem>

#include "sotto/codec/gradient_file.h"

namespace sotto {

// Reads the vector in a file. The first bytes tell safetensors, NumPy's .npy and tensors of torch.save from each other;
// a name that ends in .f32, .raw or .bin means raw little-endian float32. FileError names the file and what is wrong
// with it.
GradientFile read_vector(const std::filesystem::path& path);

}  // namespace sotto
