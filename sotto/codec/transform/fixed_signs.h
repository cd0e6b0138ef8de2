#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "sotto/core/random.h"

namespace sotto {

// The value, or its negative, by the number of its element within the segment: the same for ever, so that a message
// need not say it. Random signs spread what is large over all coefficients of a Hadamard transform.
inline float with_fixed_sign(float value, std::size_t number) {
  constexpr ElementStream signs{0x736f7474U, 0x6f736967U};  // any two numbers: they are part of the format
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^
                              (signs.at(static_cast<std::uint32_t>(number)) & 0x80000000U));
}

}  // namespace sotto
