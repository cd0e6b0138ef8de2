#pragma once

#include <cstdint>
#include <span>

namespace sotto::kernels {

void add(std::span<const float> values, std::span<float> out);                 // out += values
void scale(float factor, std::span<float> out);                                // out *= factor
void axpy(float factor, std::span<const float> values, std::span<float> out);  // out += factor * values, not fused

// out[j] = values[indices[j] - first], for gathering what was selected, and the reverse: out[indices[j] - first] +=
// values[j].
void gather(std::span<const float> values, std::span<const std::uint32_t> indices, std::uint32_t first,
            std::span<float> out);
void scatter_add(std::span<const float> values, std::span<const std::uint32_t> indices, std::uint32_t first,
                 std::span<float> out);

}  // namespace sotto::kernels
