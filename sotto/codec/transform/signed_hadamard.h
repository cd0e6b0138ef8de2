#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/core/random.h"
#include "sotto/kernels/fourier.h"

namespace sotto {

// The value or its negative, depending only on the element's number within the segment; this never changes, so messages
// need not contain it. Random signs spread large values over all coefficients of a Hadamard transform.
inline float with_fixed_sign(float value, std::size_t number) {
  constexpr ElementStream signs{0x736f7474U, 0x6f736967U};  // arbitrary, but part of the format
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^
                              (signs.at(static_cast<std::uint32_t>(number)) & 0x80000000U));
}

// The orthonormal Hadamard transform, after fixed signs, of consecutive chunks of `size` values; `number` is the first
// value's number within the segment, and the last chunk is padded with zeros. Coefficient k of chunk l goes to lanes[k
// * fourier_lanes + l]. REQUIRES at most fourier_lanes chunks, and size * fourier_lanes lanes.
inline void signed_hadamard(std::span<const float> values, std::size_t number, std::size_t size,
                            std::span<float> lanes) {
  const float factor = 1 / std::sqrt(static_cast<float>(size));
  std::ranges::fill(lanes, 0.0F);
  for (std::size_t l = 0; l * size < values.size(); ++l) {
    const auto chunk = values.subspan(l * size, std::min(size, values.size() - l * size));
    for (std::size_t k = 0; k < chunk.size(); ++k) {
      lanes[k * kernels::fourier_lanes + l] = with_fixed_sign(chunk[k], number + l * size + k) * factor;
    }
  }
  kernels::hadamard(lanes, size);
}

}  // namespace sotto
