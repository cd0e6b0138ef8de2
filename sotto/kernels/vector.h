#pragma once

#include <cstdint>
#include <span>

namespace sotto::kernels {

void add(std::span<const float> values, std::span<float> out);                 // out += values
void scale(float factor, std::span<float> out);                                // out *= factor
void axpy(float factor, std::span<const float> values, std::span<float> out);  // out += factor * values, not fused
void xpay(std::span<const float> values, float factor, std::span<float> out);  // out = values + factor * out, not fused

// out[indices[j] - first] += values[j].
void scatter_add(std::span<const float> values, std::span<const std::uint32_t> indices, std::uint32_t first,
                 std::span<float> out);
// out[indices[j] - first] = value.
void scatter_fill(float value, std::span<const std::uint32_t> indices, std::uint32_t first, std::span<float> out);

// Updates the momentum u and its accumulated sum v in one pass. With g = scale * gradient:
//   add_momentum:  u = m * u + g,    v = v + u
//   add_nesterov:  u = m * (u + g),  v = (v + u) + g
// No operations are fused. REQUIRES equal lengths.
void add_momentum(float m, float scale, std::span<const float> gradient, std::span<float> u, std::span<float> v);
void add_nesterov(float m, float scale, std::span<const float> gradient, std::span<float> u, std::span<float> v);

}  // namespace sotto::kernels
