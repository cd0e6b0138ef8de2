#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto::kernels {

// Sums are made in doubles, chunk by chunk. In a chunk, element i is added to lane i % 16 of 16, and the lanes are
// folded 8 onto 8, 4 onto 4, 2 onto 2, 1 onto 1; the sums of the chunks are added in order. The result is thus the same
// on every machine and with any number of threads that share the chunks. It cannot overflow: it is finite exactly if
// all elements are.
inline constexpr std::size_t sum_chunk = 65536;
double sum_abs(std::span<const float> values);
double sum_squares(std::span<const float> values);

// The largest |value|, as float bits without the sign: 0x7F800000 or more if and only if an element is not finite.
std::uint32_t max_abs_bits(std::span<const float> values);
// The number of values whose magnitude bits are at least `least` (select.h), and the sum of their magnitudes, in lanes
// and chunks as above.
struct Reaching {
  double sum = 0;
  std::uint64_t count = 0;
};
Reaching reaching(std::span<const float> values, std::uint32_t least);

bool all_finite(std::span<const float> values);
// Writes the largest magnitude of every `block` values (the last block may be shorter) as floats to `norms`, which may
// have any alignment. Returns max_abs_bits() of all values.
std::uint32_t max_abs_blocks(std::span<const float> values, std::size_t block, std::span<std::byte> norms);
// Writes the least and the largest of every `block` values, as two floats at any alignment, with -0 as 0. False when a
// value is not finite; `ends` is then invalid.
bool interval_blocks(std::span<const float> values, std::size_t block, std::span<std::byte> ends);

// A sum and the largest magnitude in one pass.
struct Spread {
  double sum = 0;
  std::uint32_t max_abs_bits = 0;
};
Spread spread_abs(std::span<const float> values);
Spread spread_squares(std::span<const float> values);

// The sum, the sum of squares and the largest magnitude in one pass.
struct Moments {
  double sum = 0, squares = 0;
  std::uint32_t max_abs_bits = 0;
};
Moments moments(std::span<const float> values);

inline constexpr std::uint32_t infinity_bits = 0x7F800000U;

}  // namespace sotto::kernels
