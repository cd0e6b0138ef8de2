#pragma once

#include <cstddef>
#include <span>

namespace sotto::kernels {

// Sixteen transforms at once, side by side: element k of transform l stands at [k * fourier_lanes + l].
inline constexpr std::size_t fourier_lanes = 16;

// X_k = sum_j x_j exp(-2 pi i j k / n), in place, radix 2. With `re` and `im` exchanged it is the inverse, times n.
// cosines, sines: of 2 pi j / n, for j < n / 2. REQUIRES n a power of two, and room for n * fourier_lanes numbers.
void fourier(std::span<float> re, std::span<float> im, std::size_t n, std::span<const float> cosines,
             std::span<const float> sines);

// The Walsh-Hadamard transform, in place, not scaled: twice is n times the identity. REQUIRES n a power of two.
void hadamard(std::span<float> values, std::size_t n);

}  // namespace sotto::kernels
