#include "sotto/codec/quantise/sketch_classes.h"

#include <algorithm>
#include <bit>

#include "sotto/codec/select/candidates.h"

namespace sotto {

unsigned SketchClasses::width_of(std::size_t symbols) {
  return symbols < 2 ? 0 : static_cast<unsigned>(std::bit_width(symbols - 1));
}

SketchClasses::SketchClasses(const BinValues& bins, std::size_t groups, bool zeros) {
  if (zeros) classes_[count_++] = {0, 1};
  const std::size_t all = bins.positive + bins.negative;
  std::size_t positive = all > 0 ? (2 * groups * bins.positive + all) / (2 * all) : 0;
  if (bins.positive > 0 && bins.negative > 0) positive = std::clamp<std::size_t>(positive, 1, groups - 1);
  add_side(1, bins.positive, positive);
  add_side(1 + bins.positive, bins.negative, groups - positive);
}

void SketchClasses::add_side(std::size_t first, std::size_t bins, std::size_t groups) {
  groups = std::min(groups, bins);
  std::size_t begin = 0;
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t end = (g + 1) * bins / groups;
    classes_[count_] = {static_cast<std::uint16_t>(first + begin), static_cast<std::uint16_t>(end - begin)};
    for (std::size_t i = begin; i < end; ++i) {
      class_of_[first + i] = static_cast<std::uint16_t>(count_);
      level_of_[first + i] = static_cast<std::uint16_t>(i - begin);
    }
    begin = end;
    ++count_;
  }
}

SketchCells::SketchCells(const SketchClasses& classes, std::span<const std::uint32_t> values, unsigned rows,
                         double columns) {
  at.rows = rows;
  for (std::size_t c = 0; c < classes.count(); ++c) {
    if (values[c] == 0 || classes[c].bins < 2) continue;
    at.first[c] = static_cast<std::uint32_t>(count);
    at.columns[c] = static_cast<std::uint32_t>(share_of(columns, values[c]));
    count += rows * at.columns[c];
    bytes += kernels::packed_bytes(rows * at.columns[c], classes[c].width());
  }
  for (std::size_t c = 0; c < classes.count(); ++c) {
    if (at.columns[c] > 0) continue;
    at.first[c] = static_cast<std::uint32_t>(count);
    at.columns[c] = 1;
  }
}

}  // namespace sotto
