#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/core/random.h"

namespace sotto::kernels {

// A window of a sketch's row: so few columns that they stay in the cache.
inline constexpr std::uint32_t sketch_window = 4096;

// The places in such a window of the elements from `number` on, element::sketch_place() of their random numbers: twice
// the column, one more where the sign is minus. REQUIRES 1 <= width <= sketch_window.
void sketch_places(const ElementStream& stream, std::uint32_t number, std::uint32_t width,
                   std::span<std::uint32_t> places);

// Of each element in turn: cells[column] += value with that sign; and what its cell says of it.
void add_signed(std::span<const float> values, std::span<const std::uint32_t> places, float* cells);
void read_signed(const float* cells, std::span<const std::uint32_t> places, std::span<float> out);

// The same without signs: magnitudes of values above zero go to one window and of those below to another.
void add_magnitudes(std::span<const float> values, std::span<const std::uint32_t> places, float* above, float* below);
void read_cells(const float* cells, std::span<const std::uint32_t> places, std::span<float> out);

// rows holds `count` rows of out.size() floats. out[i] becomes the median, or the least, of their i-th ones; rows are
// void then. REQUIRES count odd for the median.
void median_of_rows(std::span<float> rows, std::size_t count, std::span<float> out);
void least_of_rows(std::span<const float> rows, std::size_t count, std::span<float> out);

}  // namespace sotto::kernels
