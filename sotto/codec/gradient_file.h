#pragma once

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

}  // namespace sotto
