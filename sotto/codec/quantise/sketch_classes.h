#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/codec/quantise/bins.h"
#include "sotto/core/layout.h"
#include "sotto/kernels/bits.h"
#include "sotto/kernels/minmax.h"

namespace sotto {

// The classes of a MinMaxSketch. The bins are cut into `groups` runs of about equal length; each sign has its share of
// the groups, at least one and at most one per bin. A class is such a group; if there are zeros, they are class 0.
// Within a class, bins are numbered as levels, outwards from zero.
class SketchClasses {
 public:
  static constexpr std::size_t least_groups = 2, most_groups = 64;
  // The most bins of a group, if both signs together have `bins` bins.
  static std::size_t longest(std::size_t bins, std::size_t groups) { return (2 * bins + groups - 1) / groups; }
  static unsigned width_of(std::size_t symbols);  // bits that distinguish `symbols` symbols
  struct Class {
    std::uint16_t base = 0;  // its first bin
    std::uint16_t bins = 1;
    unsigned width() const { return width_of(bins); }  // bits of a level
  };

  SketchClasses(const BinValues& bins, std::size_t groups, bool zeros);

  std::size_t count() const { return count_; }
  const Class& operator[](std::size_t c) const { return classes_[c]; }
  unsigned width() const { return width_of(count_); }  // bits of a class number; 0 if there is only one class
  // For each bin.
  std::span<const std::uint16_t> class_of() const { return class_of_; }
  std::span<const std::uint16_t> level_of() const { return level_of_; }

 private:
  void add_side(std::size_t first, std::size_t bins, std::size_t groups);

  std::size_t count_ = 0;
  std::array<Class, kernels::MinMaxCells::most_classes> classes_{};
  std::array<std::uint16_t, kernels::most_bins> class_of_{}, level_of_{};
};

using SketchCounts = std::array<std::uint32_t, kernels::MinMaxCells::most_classes>;  // values of each class

// The cells of the classes, given the number of values of each class: ceil(columns * values) per row. A class with no
// values or one bin needs none; its values use spare cells after all others, so that no loop needs a special case.
struct SketchCells {
  SketchCells(const SketchClasses& classes, std::span<const std::uint32_t> values, unsigned rows, double columns);

  // Calls visit(class, cells, bytes) for every class that has cells: the range of its cells, and of their packed bytes.
  template <class Visit>
  void visit(const SketchClasses& classes, Visit visit) const {
    std::size_t begin = 0;
    for (std::size_t c = 0; c < classes.count(); ++c) {
      if (at.first[c] == count) continue;
      const std::size_t cells = std::size_t{at.rows} * at.columns[c];
      const std::size_t end = begin + kernels::packed_bytes(cells, classes[c].width());
      visit(classes[c], Range{at.first[c], at.first[c] + cells}, Range{begin, end});
      begin = end;
    }
  }

  std::size_t count = 0;  // of all classes
  std::size_t bytes = 0;  // of the levels of all cells, packed separately for each class
  kernels::MinMaxCells at;
};

}  // namespace sotto
