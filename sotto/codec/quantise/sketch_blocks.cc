#include "sotto/codec/quantise/sketch_blocks.h"

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

SketchBlocks::SketchBlocks(const BinValues& bins, std::span<const std::byte> side, std::size_t values,
                           const SketchShape& shape)
    : forms_{SketchClasses(bins, shape.groups, false), SketchClasses(bins, shape.groups, true)},
      side_(side),
      values_(values),
      shape_(shape) {}

// Place 0 is the count of zeros, even if there are none; the classes of groups follow.
std::uint16_t SketchBlocks::number(std::size_t b, std::size_t place) const {
  return kernels::load<std::uint16_t>(side_.data() + b * side_bytes(1, shape_.groups), place);
}

SketchCounts SketchBlocks::counts(std::size_t b) const {
  SketchCounts counts{};
  const std::size_t first = number(b, 0) > 0 ? 0 : 1;
  for (std::size_t place = first; place <= shape_.groups; ++place) counts[place - first] = number(b, place);
  return counts;
}

void SketchBlocks::store(const SketchCounts& counts, bool zeros, std::size_t groups, std::byte* side) {
  std::fill_n(side, side_bytes(1, groups), std::byte{0});
  const std::size_t first = zeros ? 0 : 1;
  for (std::size_t place = first; place <= groups; ++place) {
    kernels::store(side, place, static_cast<std::uint16_t>(counts[place - first]));
  }
}

SketchBlock SketchBlocks::operator[](std::size_t b) const {
  const SketchClasses& its = classes(number(b, 0) > 0);
  const Range values{b * SketchBlock::size, std::min((b + 1) * SketchBlock::size, values_)};
  return {&its, values, SketchCells(its, counts(b), shape_.rows, shape_.columns)};
}

void SketchBlocks::check() const {
  for (std::size_t b = 0; b < count(); ++b) {
    const std::size_t classes = this->classes(number(b, 0) > 0).count();
    const SketchCounts counts = this->counts(b);
    // The padding after an odd number of counts must be zero.
    std::size_t sum = shape_.groups % 2 == 0 ? number(b, shape_.groups + 1) : 0;
    bool good = sum == 0;
    for (std::size_t c = 0; c < counts.size(); ++c) {
      sum += counts[c];
      good = good && (c < classes || counts[c] == 0);
    }
    if (!good) throw WireError("minmax_sketch: values of a class that is not there");
    if (sum != std::min(SketchBlock::size, values_ - b * SketchBlock::size)) {
      throw WireError("minmax_sketch: classes of more or fewer values than there are");
    }
  }
}

std::size_t SketchBlocks::bytes(std::size_t begin, std::size_t end) const {
  std::size_t sum = 0;
  for (std::size_t b = begin; b < end; ++b) sum += (*this)[b].bytes();
  return sum;
}

void SketchBlocks::list_runs(std::vector<SymbolRun>& runs) const {
  for (std::size_t b = 0; b < count(); ++b) {
    const SketchBlock its = (*this)[b];
    if (its.classes->width() > 0) runs.push_back({.width = its.classes->width(), .count = its.values.size()});
    its.cells.visit(*its.classes, [&](const SketchClasses::Class& of, Range cells, Range) {
      runs.push_back({.width = of.width(), .count = cells.size(), .kind = 1});
    });
  }
}

}  // namespace sotto
