#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto::kernels {

// The MinMaxSketch of SketchML (Jiang et al., SIGMOD 2018) of some keys, each of which has a class and a level: a class
// has rows of cells, in each of which a hash of the key finds a cell. A cell keeps the least level that came to it, and
// the largest of a key's cells is the answer: never more than its level.
struct MinMaxCells {
  static constexpr std::size_t most_classes = 65;
  static constexpr unsigned most_rows = 4;

  unsigned rows = 1;
  std::array<std::uint32_t, most_classes> first{};    // cell of each class: rows of
  std::array<std::uint32_t, most_classes> columns{};  // so many cells, at least 1
};

// Of key j, `first_key` being that of the first element: row r takes the lower (r even) or upper (r odd) half of
// hash64(key, r / 2), which place_of() makes a column. REQUIRES 1 <= rows <= most_rows.
void insert_least(std::span<const std::uint16_t> classes, std::span<const std::uint16_t> levels, const MinMaxCells& at,
                  std::uint64_t first_key, std::uint16_t* cells);
void find_largest(std::span<const std::uint16_t> classes, const MinMaxCells& at, std::uint64_t first_key,
                  const std::uint16_t* cells, std::span<std::uint16_t> levels);

}  // namespace sotto::kernels
