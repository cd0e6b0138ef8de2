#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/core/random.h"
#include "sotto/kernels/fourier.h"

namespace sotto {

// Copies values, each multiplied by `factor` and with a sign that depends only on the element's number within the
// segment (`number` belongs to the first); this never changes, so messages need not contain it. Random signs spread
// large values over all coefficients of a Hadamard transform.
inline void with_fixed_signs(std::span<const float> values, std::size_t number, float factor, std::span<float> out) {
  constexpr ElementStream signs{0x736f7474U, 0x6f736967U};  // arbitrary, but part of the format
  kernels::random_signs(values, signs, static_cast<std::uint32_t>(number), factor, out);
}

// The orthonormal Hadamard transform, after fixed signs, of consecutive chunks of `size` values; `number` is the first
// value's number within the segment, and the last chunk is padded with zeros. The coefficients go to `lanes`. Changes
// `chunks`. REQUIRES at most fourier_lanes chunks, and size * fourier_lanes numbers in `chunks` and `lanes`.
inline void signed_hadamard(std::span<const float> values, std::size_t number, std::size_t size,
                            std::span<float> chunks, std::span<float> lanes) {
  with_fixed_signs(values, number, 1 / std::sqrt(static_cast<float>(size)), chunks);
  const std::size_t padded = (values.size() + size - 1) / size * size;
  std::ranges::fill(chunks.subspan(values.size(), padded - values.size()), 0.0F);
  kernels::to_lanes(chunks.first(padded), size, lanes);
  kernels::hadamard(lanes, size);
}

}  // namespace sotto
