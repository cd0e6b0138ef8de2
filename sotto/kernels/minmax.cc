#include "sotto/kernels/minmax.h"

#include <algorithm>

#include "sotto/kernels/hash.h"

namespace sotto::kernels {
namespace {

// visit(cell) for the cells of a key.
template <unsigned rows, class Visit>
inline void for_cells(std::uint64_t key, std::uint32_t first, std::uint32_t columns, Visit visit) {
  for (unsigned r = 0; r < rows; r += 2) {
    const std::uint64_t hash = hash64(key, r / 2);
    visit(first + r * columns + place_of(static_cast<std::uint32_t>(hash), columns));
    if (r + 1 < rows) visit(first + (r + 1) * columns + place_of(static_cast<std::uint32_t>(hash >> 32), columns));
  }
}

template <unsigned rows>
void insert(std::span<const std::uint16_t> classes, std::span<const std::uint16_t> levels, const MinMaxCells& at,
            std::uint64_t first_key, std::uint16_t* cells) {
  for (std::size_t j = 0; j < classes.size(); ++j) {
    const std::uint16_t level = levels[j];
    for_cells<rows>(first_key + j, at.first[classes[j]], at.columns[classes[j]],
                    [&](std::size_t cell) { cells[cell] = std::min(cells[cell], level); });
  }
}

template <unsigned rows>
void find(std::span<const std::uint16_t> classes, const MinMaxCells& at, std::uint64_t first_key,
          const std::uint16_t* cells, std::span<std::uint16_t> levels) {
  for (std::size_t j = 0; j < classes.size(); ++j) {
    std::uint16_t level = 0;
    for_cells<rows>(first_key + j, at.first[classes[j]], at.columns[classes[j]],
                    [&](std::size_t cell) { level = std::max(level, cells[cell]); });
    levels[j] = level;
  }
}

}  // namespace

void insert_least(std::span<const std::uint16_t> classes, std::span<const std::uint16_t> levels, const MinMaxCells& at,
                  std::uint64_t first_key, std::uint16_t* cells) {
  switch (at.rows) {
    case 1: return insert<1>(classes, levels, at, first_key, cells);
    case 2: return insert<2>(classes, levels, at, first_key, cells);
    case 3: return insert<3>(classes, levels, at, first_key, cells);
    default: return insert<4>(classes, levels, at, first_key, cells);
  }
}

void find_largest(std::span<const std::uint16_t> classes, const MinMaxCells& at, std::uint64_t first_key,
                  const std::uint16_t* cells, std::span<std::uint16_t> levels) {
  switch (at.rows) {
    case 1: return find<1>(classes, at, first_key, cells, levels);
    case 2: return find<2>(classes, at, first_key, cells, levels);
    case 3: return find<3>(classes, at, first_key, cells, levels);
    default: return find<4>(classes, at, first_key, cells, levels);
  }
}

}  // namespace sotto::kernels
