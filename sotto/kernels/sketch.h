#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/core/random.h"

namespace sotto::kernels {

// A 64-bit hash, the same on every machine, for places in sketches and hash tables. It is output number key + 1 of
// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) with this seed, so no two keys have the same hash.
constexpr std::uint64_t hash64(std::uint64_t key, std::uint64_t seed = 0) {
  std::uint64_t h = seed + (key + 1) * 0x9E3779B97F4A7C15ULL;
  h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9ULL;
  h = (h ^ (h >> 27)) * 0x94D049BB133111EBULL;
  return h ^ (h >> 31);
}

// Maps 32 bits of a hash to 0 .. places - 1: floor(bits * places / 2^32). REQUIRES places <= 2^32.
constexpr std::size_t place_of(std::uint32_t bits, std::size_t places) {
  return static_cast<std::size_t>((static_cast<std::uint64_t>(bits) * places) >> 32);
}

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

// The MinMaxSketch of SketchML (Jiang et al., SIGMOD 2018). Every key has a class and a level. Each class has rows of
// cells; a hash of the key gives it one cell in every row. A cell keeps the least level that was inserted, and a
// look-up returns the largest value of the key's cells, which is never above the key's level.
struct MinMaxCells {
  static constexpr std::size_t most_classes = 65;
  static constexpr unsigned most_rows = 4;

  unsigned rows = 1;
  std::array<std::uint32_t, most_classes> first{};    // the first cell of each class
  std::array<std::uint32_t, most_classes> columns{};  // the cells per row of each class, at least 1
};

// Element j has the key first_key + j. Its column in row r is place_of() the lower (r even) or upper (r odd) half of
// hash64(key, r / 2). REQUIRES 1 <= rows <= most_rows.
void insert_least(std::span<const std::uint16_t> classes, std::span<const std::uint16_t> levels, const MinMaxCells& at,
                  std::uint64_t first_key, std::uint16_t* cells);
void find_largest(std::span<const std::uint16_t> classes, const MinMaxCells& at, std::uint64_t first_key,
                  const std::uint16_t* cells, std::span<std::uint16_t> levels);

}  // namespace sotto::kernels
