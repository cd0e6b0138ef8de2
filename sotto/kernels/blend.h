#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto::kernels {

// Weighted means of bytes, for resizing pictures. Weights are multiples of 2^-22, not negative, and sum to about one. A
// sum is rounded to the nearest byte. Results have the same bits as Pillow's.
inline constexpr int weight_bits = 22;

// The input of an output pixel: the mean of pixels first .. first + count - 1, with the weights from `weight` on.
struct Taps {
  std::uint32_t first, count;
  std::size_t weight;
};

// Along a row of pixels of four bytes: out pixel i is the mean of the pixels that taps[i] names.
// REQUIRES out.size() == 4 * taps.size(), and that all taps lie within the row.
void blend_pixels(std::span<const std::uint8_t> row, std::span<const Taps> taps, std::span<const std::int32_t> weights,
                  std::span<std::uint8_t> out);

// Across rows, which lie `stride` bytes apart: out byte j is the mean of byte j of the first weights.size() rows.
// REQUIRES out.size() <= stride, at least one row, and rows.size() >= (weights.size() - 1) * stride + out.size().
void blend_rows(std::span<const std::uint8_t> rows, std::size_t stride, std::span<const std::int32_t> weights,
                std::span<std::uint8_t> out);

}  // namespace sotto::kernels
