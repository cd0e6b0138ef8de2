#pragma once

#include <cstddef>
#include <span>

namespace sotto::kernels {

// Both functions do sixteen transforms at once: element k of transform l is at [k * fourier_lanes + l].
inline constexpr std::size_t fourier_lanes = 16;

// X_k = sum_j x_j exp(-2 pi i j k / n), in place, radix 2. With `re` and `im` exchanged it is n times the inverse.
// `cosines` and `sines` are those of 2 pi j / n for j < n / 2. REQUIRES n a power of two, and n * fourier_lanes
// numbers.
void fourier(std::span<float> re, std::span<float> im, std::size_t n, std::span<const float> cosines,
             std::span<const float> sines);

// The Walsh-Hadamard transform, in place and unscaled: applied twice it is n times the identity. REQUIRES n a power of
// two.
void hadamard(std::span<float> values, std::size_t n);

}  // namespace sotto::kernels
