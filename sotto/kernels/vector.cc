#include "sotto/kernels/vector.h"

#include <cstddef>

namespace sotto::kernels {

void add(std::span<const float> values, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] += values[i];
}

void scale(float factor, std::span<float> out) {
  for (float& value : out) value *= factor;
}

void axpy(float factor, std::span<const float> values, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] += factor * values[i];
}

void scatter_add(std::span<const float> values, std::span<const std::uint32_t> indices, std::uint32_t first,
                 std::span<float> out) {
  for (std::size_t j = 0; j < indices.size(); ++j) out[indices[j] - first] += values[j];
}

}  // namespace sotto::kernels
