#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "sotto/kernels/element.h"

// As element.h, of values that become a byte: 8-bit floats and powers of two.
namespace sotto::kernels::element {

// The 8-bit floats of the OCP specification (2023): a sign, an exponent, mantissa bits. What lies beyond `largest` is
// infinite or no number; none of that is ever written.
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

// What the conversions of a format are made of.
template <class Format>
struct Float8 {
  static constexpr int shift = 23 - Format::mantissa;  // of the bits of a float
  static constexpr std::uint32_t rebase = static_cast<std::uint32_t>(127 - Format::bias) << 23;
  static constexpr float least_normal = std::bit_cast<float>(static_cast<std::uint32_t>(128 - Format::bias) << 23);
  // Adding it leaves the multiples of the smallest number in the low bits of the sum, rounded by the addition itself.
  static constexpr std::uint32_t rounder = static_cast<std::uint32_t>(151 - Format::bias - Format::mantissa) << 23;
};

// Rounded to nearest even; saturated.
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

// value * unit, at most the largest float where that could be exceeded.
inline constexpr float large_unit = 0x1p100F;
template <class Format>
float from_float8(std::uint8_t byte, float unit) {
  constexpr float largest = std::numeric_limits<float>::max();
  const float value = from_float8<Format>(byte) * unit;
  if (unit < large_unit) return value;
  const float below = value < largest ? value : largest;
  return below > -largest ? below : -largest;
}

// Division by a unit, which is a power of two, as two exact products: 2^149 is not a float.
struct Share {
  explicit Share(float unit) : up(unit < 0x1p-64F ? 0x1p64F : 1.0F), factor(1.0F / (unit * up)) {}
  float of(float value) const { return value * up * factor; }
  float up, factor;
};

// 1 / (2 unit), exactly, of a unit that is a power of two from 2^-126 on.
inline float power_share(float unit) { return 0.5F / unit; }

// A power of two beside a value of less than 1 in magnitude, above or below at random so that the mean is right: the
// sum of mantissa and random bits carries into the exponent as often as the value lies above the lower power. The
// exponent alone is kept, of which the uppermost bit is 0 up to 1.
inline std::uint8_t to_power(float value, std::uint32_t number) {
  const std::uint32_t power = (magnitude_bits(value) + (number >> 9)) >> 23;
  const std::uint32_t sign = (std::bit_cast<std::uint32_t>(value) & sign_mask) >> 24;
  return static_cast<std::uint8_t>(sign | power);
}

// Such a power times 2 unit, at most the largest float.
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
