#pragma once

#include <span>

namespace sotto::kernels {

// Updates the momentum u and its accumulated sum v in one pass. With g = scale * gradient:
//   add_momentum:  u = m * u + g,    v = v + u
//   add_nesterov:  u = m * (u + g),  v = (v + u) + g
// No operations are fused. REQUIRES equal lengths.
void add_momentum(float m, float scale, std::span<const float> gradient, std::span<float> u, std::span<float> v);
void add_nesterov(float m, float scale, std::span<const float> gradient, std::span<float> u, std::span<float> v);

}  // namespace sotto::kernels
