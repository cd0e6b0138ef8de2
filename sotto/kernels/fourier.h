#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/core/random.h"

namespace sotto::kernels {

// The transforms work on sixteen chunks of n values at once: value k of chunk l is at lanes[k * fourier_lanes + l].
inline constexpr std::size_t fourier_lanes = 16;

// X_k = sum_j x_j exp(-2 pi i j k / n), in place, radix 2. With `re` and `im` exchanged, this is n times the inverse.
// `cosines` and `sines` are of 2 pi j / n for j < n / 2. REQUIRES n a power of two, and n * fourier_lanes numbers.
void fourier(std::span<float> re, std::span<float> im, std::size_t n, std::span<const float> cosines,
             std::span<const float> sines);

// The Walsh-Hadamard transform, in place and unscaled: applied twice it is n times the identity. REQUIRES n a power of
// two.
void hadamard(std::span<float> values, std::size_t n);

// Copies consecutive chunks of n values to the lanes and back. With `order`, value k of chunk l is at lanes[order[k] *
// fourier_lanes + l]. The lanes of missing chunks become zero. REQUIRES at most fourier_lanes chunks.
void to_lanes(std::span<const float> chunks, std::size_t n, std::span<float> lanes,
              std::span<const std::uint32_t> order = {});
void from_lanes(std::span<const float> lanes, std::size_t n, std::span<float> chunks,
                std::span<const std::uint32_t> order = {});

// out_i = values_i * factor, or its negative if the highest bit of stream.at(number + i) is set. `out` may be `values`.
void random_signs(std::span<const float> values, const ElementStream& stream, std::uint32_t number, float factor,
                  std::span<float> out);

}  // namespace sotto::kernels
