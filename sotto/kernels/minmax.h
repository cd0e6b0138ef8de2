#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto::kernels {

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
