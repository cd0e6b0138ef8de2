#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto::kernels {

// Sums are of doubles, chunk by chunk: in a chunk, element i goes to lane i % 16 of 16, and the lanes are folded 8 onto
// 8, 4 onto 4, 2 onto 2, 1 onto 1; the sums of the chunks are added in their order. So the result is the same on every
// machine, and on several threads that take chunks each; it cannot overflow, and is not finite just when an element is
// not.
inline constexpr std::size_t sum_chunk = 65536;
double sum_abs(std::span<const float> values);
double sum_squares(std::span<const float> values);

// The largest |value|, as float bits without the sign: 0x7F800000 or more just when an element is not finite.
std::uint32_t max_abs_bits(std::span<const float> values);
// Of the values with a magnitude of at least these bits (select.h): how many, and the sum of their magnitudes in the
// lanes and chunks above.
struct Reaching {
  double sum = 0;
  std::uint64_t count = 0;
};
Reaching reaching(std::span<const float> values, std::uint32_t least);

bool all_finite(std::span<const float> values);
// The same of every `block` values (the last may be fewer), as floats at any address; returns the largest of all.
std::uint32_t max_abs_blocks(std::span<const float> values, std::size_t block, std::span<std::byte> norms);
// The least and the largest of every `block` values, as two floats at any address, -0 as 0. False when one is not
// finite; `ends` is then void.
bool interval_blocks(std::span<const float> values, std::size_t block, std::span<std::byte> ends);

// A sum and the largest magnitude in one pass.
struct Spread {
  double sum = 0;
  std::uint32_t max_abs_bits = 0;
};
Spread spread_abs(std::span<const float> values);
Spread spread_squares(std::span<const float> values);

inline constexpr std::uint32_t infinity_bits = 0x7F800000U;

}  // namespace sotto::kernels
