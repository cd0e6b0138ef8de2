#pragma once

#include <filesystem>
#include <vector>

namespace sotto {

// The float32 values of a file: NumPy's .npy (little-endian, C order, any shape), or else raw little-endian floats.
// FileError, which names the file and what is wrong with it.
std::vector<float> read_floats(const std::filesystem::path& path);

}  // namespace sotto
