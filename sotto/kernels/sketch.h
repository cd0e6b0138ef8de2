#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/core/random.h"

namespace sotto::kernels {

// The most columns of a window, a part of a sketch's row that stays in the cache.
inline constexpr std::uint32_t sketch_window = 4096;

// The places of the elements from `number` on in a window of `width` columns: element::sketch_place() of their random
// numbers, which is twice the column, plus 1 if the sign is minus. REQUIRES 1 <= width <= sketch_window.
void sketch_places(const ElementStream& stream, std::uint32_t number, std::uint32_t width,
                   std::span<std::uint32_t> places);

// For each element in order: add_signed() adds the value with its sign to cells[column]; read_signed() reads that cell
// with the same sign.
void add_signed(std::span<const float> values, std::span<const std::uint32_t> places, float* cells);
void read_signed(const float* cells, std::span<const std::uint32_t> places, std::span<float> out);

// The same without signs: the magnitudes of positive values are added to the window `above`, of negative values to
// `below`.
void add_magnitudes(std::span<const float> values, std::span<const std::uint32_t> places, float* above, float* below);
void read_cells(const float* cells, std::span<const std::uint32_t> places, std::span<float> out);

// `rows` holds `count` rows of out.size() floats. out[i] becomes the median, or the least, of the i-th floats of all
// rows. median_of_rows() destroys `rows`, and REQUIRES an odd count.
void median_of_rows(std::span<float> rows, std::size_t count, std::span<float> out);
void least_of_rows(std::span<const float> rows, std::size_t count, std::span<float> out);

}  // namespace sotto::kernels
