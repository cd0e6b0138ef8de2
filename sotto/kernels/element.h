#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "sotto/core/random.h"

// What each kernel does with one element, in plain C++. The SIMD code is tested against these definitions on every
// target, and uses them for the elements that do not fill a vector.
namespace sotto::kernels::element {

inline constexpr std::uint32_t sign_mask = 0x80000000U;

inline std::uint32_t magnitude_bits(float value) { return std::bit_cast<std::uint32_t>(value) & ~sign_mask; }

// Numbers floats outwards from zero, the positive ones first (bins.h).
inline std::uint32_t bin_key(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return bits == sign_mask ? 0 : bits;
}

// IEEE binary16, rounded to nearest even; beyond 65504 saturated.
inline std::uint16_t to_f16(float value) {
  const std::uint32_t sign = (std::bit_cast<std::uint32_t>(value) & sign_mask) >> 16;
  const float magnitude = std::bit_cast<float>(magnitude_bits(value));
  const float clamped = magnitude < 65504.0F ? magnitude : 65504.0F;
  const std::uint32_t m = std::bit_cast<std::uint32_t>(clamped);
  // Normal numbers: the exponent is rebased by 112, and the lowest 13 bits are rounded away, ties to even.
  const std::uint32_t normal = (m - (112U << 23) + 0xFFFU + ((m >> 13) & 1U)) >> 13;
  // Below 2^-14: the addition of 1/2 rounds to multiples of 2^-24, which are then the low bits of the sum.
  const std::uint32_t small = std::bit_cast<std::uint32_t>(clamped + 0.5F) - 0x3F000000U;
  return static_cast<std::uint16_t>(sign | (m < 0x38800000U ? small : normal));
}

inline float from_f16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t m = static_cast<std::uint32_t>(half & 0x7FFFU) << 13;
  // The largest exponent means infinity and NaN in both formats.
  const float normal = std::bit_cast<float>(m + (m < (31U << 23) ? 112U << 23 : 224U << 23));
  // A subnormal is read as a normal number of the next exponent; subtracting 2^-14 again is exact.
  const float small = std::bit_cast<float>(m + (113U << 23)) - 0x1p-14F;
  const float value = m < (1U << 23) ? small : normal;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
}

// value * unit. If unit > 1 it is saturated at the largest float; otherwise infinities and NaN remain.
inline float from_f16(std::uint16_t half, float unit) {
  constexpr float largest = std::numeric_limits<float>::max();
  const float value = from_f16(half) * unit;
  if (!(unit > 1)) return value;
  const float below = value < largest ? value : largest;
  return below > -largest ? below : -largest;
}

// The upper half of a float, rounded to nearest even; saturated at the largest bfloat16.
inline std::uint16_t to_bf16(float value) {
  const std::uint32_t sign = (std::bit_cast<std::uint32_t>(value) & sign_mask) >> 16;
  const std::uint32_t m = magnitude_bits(value);
  const std::uint32_t rounded = (m + 0x7FFFU + ((m >> 16) & 1U)) >> 16;
  return static_cast<std::uint16_t>(sign | (rounded < 0x7F7FU ? rounded : 0x7F7FU));
}

inline float from_bf16(std::uint16_t half) { return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16); }

// A power of two `up` for which 255 / (norm * up) is a normal number.
inline float moderate(float norm) { return norm < 0x1p-64F ? 0x1p64F : (norm > 0x1p64F ? 0x1p-64F : 1.0F); }

// Maps values of magnitude up to `norm` to -top .. top; at() is not rounded yet. factor = top / (norm * up). With a
// norm of 0 everything is 0.
struct Grid {
  Grid(float norm, unsigned largest)
      : up(moderate(norm)),
        factor(norm == 0.0F ? 0.0F : static_cast<float>(largest) / (norm * up)),
        least(-static_cast<float>(largest)),
        top(static_cast<float>(largest)) {}
  float at(float value) const { return value * up * factor; }
  float up, factor, least, top;
};

// Maps values from `low` to `high` to 0 .. 255; all to 0 if low == high. `up` is chosen for the larger of both
// magnitudes: nothing becomes infinite, and an end that underflows to 0 is negligible against the other.
struct Interval {
  Interval(float low, float high)
      : up(moderate(std::fmax(std::fabs(low), std::fabs(high)))),
        down(1.0F / up),
        begin(low * up),
        end(high * up + 0.0F),
        factor(end == begin ? 0.0F : top / (end - begin)),
        step((end - begin) / top) {}
  float at(float value) const { return (value * up - begin) * factor; }
  // The value of a level. Both ends are exact, and no value lies beyond them.
  float from(std::int32_t level) const {
    return (level == 255 ? end : begin + static_cast<float>(level) * step) * down;
  }
  static constexpr float least = 0, top = 255;
  float up, down, begin, end, factor, step;
};

// A random number in [-1/2, 1/2]. Adding it before rounding to nearest makes the rounding unbiased. Both ends of the
// interval round to even, so 0 stays 0.
inline float dither(std::uint32_t number) { return static_cast<float>(static_cast<std::int32_t>(number)) * 0x1p-32F; }

// Adding this rounds to a whole number, ties to even, since the sum has no room for a fraction. The lowest bits of the
// sum are then the whole number, of either sign.
inline constexpr float rounder = 0x1.8p23F;

template <class AnyGrid>
std::int32_t nearest_level(float value, const AnyGrid& grid) {
  return std::bit_cast<std::int32_t>(grid.at(value) + rounder) - std::bit_cast<std::int32_t>(rounder);
}

template <class AnyGrid>
std::int32_t random_level(float value, const AnyGrid& grid, std::uint32_t number) {
  const float moved = grid.at(value) + dither(number);
  const float below = moved < grid.top ? moved : grid.top;
  const float inside = below > grid.least ? below : grid.least;
  return std::bit_cast<std::int32_t>(inside + rounder) - std::bit_cast<std::int32_t>(rounder);
}

// norm * (level * step), where step is the float nearest to 1 / top.
inline float from_level(std::int32_t level, float norm, float step) {
  return norm * (static_cast<float>(level) * step);
}

// Draws one of the two shares next to |y| at random, and returns its symbol (level_table.h). `shares` has `count` =
// 2^bits numbers, then a 2.
inline std::uint16_t random_share(float y, const float* shares, std::size_t count, std::uint32_t number) {
  const float magnitude = std::fabs(y) < 1.0F ? std::fabs(y) : 1.0F;
  std::size_t place = 0;
  for (std::size_t half = count / 2; half > 0; half /= 2) {
    if (magnitude >= shares[place + half]) place += half;
  }
  const float gap = shares[place + 1] - shares[place];
  const bool up = (magnitude - shares[place]) / gap > static_cast<float>(number >> 8) * 0x1p-24F;
  const std::size_t level = place + (up ? 1 : 0);
  return static_cast<std::uint16_t>(2 * level - (std::signbit(y) && level > 0 ? 1 : 0));
}

// Adds a gradient to the momentum u, and the momentum to v (vector.h).
inline void add_momentum(float m, float gradient, float& u, float& v) {
  u = m * u + gradient;
  v += u;
}
inline void add_nesterov(float m, float gradient, float& u, float& v) {
  u = m * (u + gradient);
  v = (v + u) + gradient;
}

// The t of draw_proportional() (select.h): 2^31 p as a whole number from 1 to 2^31.
inline constexpr float certain = 0x1p31F;
inline std::uint32_t coin(float p_times_2_31) {
  const auto t = static_cast<std::uint32_t>(p_times_2_31 < certain ? p_times_2_31 : certain);
  return t > 1 ? t : 1;
}

// The number of 7-bit groups that a gap between indices takes, and the longest run that 16 bits hold (select.h).
inline std::uint32_t gap_groups(std::uint32_t gap) {
  return (static_cast<std::uint32_t>(std::bit_width(gap | 1U)) + 6) / 7;
}
inline constexpr std::uint32_t longest_run = 0xFFFF;

// The place of an element in a window of `width` columns (sketch.h), from its random number: twice the column, plus 1
// if the sign is minus.
inline std::uint32_t sketch_place(std::uint32_t random, std::uint32_t width) {
  return (((random >> 12) * width) >> 20) << 1 | (random & 1U);
}

}  // namespace sotto::kernels::element
