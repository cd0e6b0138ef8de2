#pragma once

#include <span>

namespace sotto::kernels {

// Momentum and what has accumulated of it, in one pass over all three: with g = scale * gradient,
//   u = m * u + g,    v = v + u          or, as Nesterov has it,
//   u = m * (u + g),  v = (v + u) + g.
// Nothing is fused. REQUIRES as many of each.
void add_momentum(float m, float scale, std::span<const float> gradient, std::span<float> u, std::span<float> v);
void add_nesterov(float m, float scale, std::span<const float> gradient, std::span<float> u, std::span<float> v);

}  // namespace sotto::kernels
