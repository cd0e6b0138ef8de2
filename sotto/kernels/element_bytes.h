#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "sotto/kernels/element.h"

// Like element.h, for values that become one byte: 8-bit floats and powers of two.
namespace sotto::kernels::element {

// The 8-bit floats of the OCP specification (2023): sign, exponent and mantissa bits. Bits above `largest_bits` are
// infinities or NaN and are never written.
struct E4M3 {
  static constexpr int mantissa = 3, bias = 7;
  static constexpr float largest = 448;
  static constexpr std::uint8_t largest_bits = 0x7E;
};
struct E5M2 {
  static constexpr int mantissa = 2, bias = 15;
  static constexpr float largest = 57344;
  static constexpr std::uint8_t largest_bits = 0x7B;
};

// Constants of the conversions of a format.
template <class Format>
struct Float8 {
  static constexpr int shift = 23 - Format::mantissa;  // from the mantissa of a float to the format's
  static constexpr std::uint32_t rebase = static_cast<std::uint32_t>(127 - Format::bias) << 23;
  static constexpr float least_normal = std::bit_cast<float>(static_cast<std::uint32_t>(128 - Format::bias) << 23);
  // Adding it rounds to multiples of the smallest number, which are then the low bits of the sum.
  static constexpr std::uint32_t rounder = static_cast<std::uint32_t>(151 - Format::bias - Format::mantissa) << 23;
};

// Rounds to nearest even; saturates at `largest`.
template <class Format>
std::uint8_t to_float8(float value) {
  using F = Float8<Format>;
  const std::uint32_t sign = (std::bit_cast<std::uint32_t>(value) & sign_mask) >> 24;
  const float magnitude = std::bit_cast<float>(magnitude_bits(value));
  const float clamped = magnitude < Format::largest ? magnitude : Format::largest;
  const std::uint32_t m = std::bit_cast<std::uint32_t>(clamped);
  const std::uint32_t normal = (m - F::rebase + ((1U << (F::shift - 1)) - 1) + ((m >> F::shift) & 1U)) >> F::shift;
  const std::uint32_t small = std::bit_cast<std::uint32_t>(clamped + std::bit_cast<float>(F::rounder)) - F::rounder;
  return static_cast<std::uint8_t>(sign | (clamped < F::least_normal ? small : normal));
}

template <class Format>
float from_float8(std::uint8_t byte) {
  using F = Float8<Format>;
  const std::uint32_t m = static_cast<std::uint32_t>(byte & 0x7FU) << F::shift;
  const float normal = std::bit_cast<float>(m + F::rebase);
  const float small = std::bit_cast<float>(m + F::rebase + (1U << 23)) - F::least_normal;
  const float value = m < (1U << 23) ? small : normal;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | (static_cast<std::uint32_t>(byte & 0x80U) << 24));
}

// value * unit, saturated at the largest float where the product could exceed it.
inline constexpr float large_unit = 0x1p100F;
template <class Format>
float from_float8(std::uint8_t byte, float unit) {
  constexpr float largest = std::numeric_limits<float>::max();
  const float value = from_float8<Format>(byte) * unit;
  if (unit < large_unit) return value;
  const float below = value < largest ? value : largest;
  return below > -largest ? below : -largest;
}

// Divides by a unit, a power of two from 2^-149 on, by two exact multiplications, because 2^149 is not a float.
struct Divider {
  explicit Divider(float unit) : up(unit < 0x1p-64F ? 0x1p64F : 1.0F), factor(1.0F / (unit * up)) {}
  float divide(float value) const { return value * up * factor; }
  float up, factor;
};

// 1 / (2 unit), which is exact when the unit is a power of two from 2^-126 on.
inline float power_share(float unit) { return 0.5F / unit; }

// Rounds a value of magnitude below 1 to the power of two above or below it, at random without bias: adding random bits
// to the mantissa carries into the exponent with the right probability. Only sign and exponent are kept; the uppermost
// bit of the exponent is 0 up to 1.
inline std::uint8_t to_power(float value, std::uint32_t number) {
  const std::uint32_t power = (magnitude_bits(value) + (number >> 9)) >> 23;
  const std::uint32_t sign = (std::bit_cast<std::uint32_t>(value) & sign_mask) >> 24;
  return static_cast<std::uint8_t>(sign | power);
}

// The power of such a byte times 2 unit, saturated at the largest float.
inline constexpr float largest_power = 0x1p127F;
inline float from_power(std::uint8_t byte, float unit) {
  constexpr float largest = std::numeric_limits<float>::max();
  const auto power = std::bit_cast<float>(static_cast<std::uint32_t>(byte & 0x80U) << 24 |
                                          static_cast<std::uint32_t>(byte & 0x7FU) << 23);
  if (unit < largest_power) return power * (2 * unit);
  const float value = 2 * power * unit;
  const float below = value < largest ? value : largest;
  return below > -largest ? below : -largest;
}

}  // namespace sotto::kernels::element
