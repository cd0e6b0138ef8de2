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

// The value, or its negative, by the number of its element within the segment: the same for ever, so that a message
// need not say it. Random signs spread what is large over all coefficients of a Hadamard transform.
inline float with_fixed_sign(float value, std::size_t number) {
  constexpr ElementStream signs{0x736f7474U, 0x6f736967U};  // any two numbers: they are part of the format
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^
                              (signs.at(static_cast<std::uint32_t>(number)) & 0x80000000U));
}

// The orthonormal Hadamard transform, after fixed signs, of chunks of `size` values that follow each other from this
// element of the segment on, the last of them filled up with zeros: coefficient k of chunk l becomes
// lanes[k * fourier_lanes + l]. REQUIRES fourier_lanes chunks at most, and lanes of as many.
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
