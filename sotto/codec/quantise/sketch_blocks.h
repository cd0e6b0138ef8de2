#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sotto/codec/quantise/bins.h"
#include "sotto/codec/shared_work.h"
#include "sotto/codec/stage.h"
#include "sotto/core/layout.h"
#include "sotto/kernels/bits.h"
#include "sotto/kernels/sketch.h"

namespace sotto {

// The classes of a MinMaxSketch. The bins are cut into `groups` groups: runs of about equal length. Each sign with bins
// has its share of the groups, at least one and at most one per bin. A class is such a group; if there are zeros, they
// are class 0. Within a class, bins are numbered as levels, outwards from zero.
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

struct SketchShape {
  std::size_t groups = 8;
  unsigned rows = 2;
  double columns = 0.3;
};

// A block of values of a unit. A message has the classes of the values, and then the cells of each class.
struct SketchBlock {
  static constexpr std::size_t size = 16384;  // values per block; the last block may have fewer
  const SketchClasses* classes;
  Range values;  // of the unit
  SketchCells cells;
  std::size_t class_bytes() const { return kernels::packed_bytes(values.size(), classes->width()); }
  std::size_t bytes() const { return class_bytes() + cells.bytes; }
};

// The blocks of a unit. After the bins, the side information has the number of values of each class, for every block:
// 16 bits for zeros and for each possible group, padded to words of 32 bits.
class SketchBlocks {
 public:
  static std::size_t count(std::size_t values) { return (values + SketchBlock::size - 1) / SketchBlock::size; }
  static std::size_t side_bytes(std::size_t values, std::size_t groups) {
    return count(values) * (groups / 2 + 1) * sizeof(std::uint32_t);
  }

  // `side` has the counts of the blocks alone. A writer may pass a larger span, which it then fills.
  SketchBlocks(const BinValues& bins, std::span<const std::byte> side, std::size_t values, const SketchShape& shape);

  std::size_t count() const { return count(values_); }
  const SketchClasses& classes(bool zeros) const { return forms_[zeros ? 1 : 0]; }
  SketchBlock operator[](std::size_t b) const;
  // The number of values of each class of a block, as the side information says.
  SketchCounts counts(std::size_t b) const;
  // Writes what operator[] and counts() read.
  static void store(const SketchCounts& counts, bool zeros, std::size_t groups, std::byte* side);
  // WireError unless the counts of every block add up to its number of values, and belong to existing classes.
  void check() const;

  std::size_t bytes(std::size_t begin, std::size_t end) const;
  // Lists the symbols of all blocks: classes are kind 0, cells kind 1.
  void list_runs(std::vector<SymbolRun>& runs) const;
  // Calls visit(b, block, bytes) for all blocks, on all threads.
  template <class Visit>
  void visit(ThreadPool& pool, std::size_t grain, std::span<const std::byte> packed, Visit visit) const {
    fill_in_order(
        pool, count(), grain, [&](std::size_t begin, std::size_t end) { return bytes(begin, end); },
        [&](std::size_t begin, std::size_t end, std::size_t place) {
          for (std::size_t b = begin; b < end; ++b) {
            const SketchBlock its = (*this)[b];
            visit(b, its, packed.subspan(place, its.bytes()));
            place += its.bytes();
          }
        });
  }

 private:
  std::uint16_t number(std::size_t b, std::size_t place) const;

  std::array<SketchClasses, 2> forms_;  // for blocks without and with zeros
  std::span<const std::byte> side_;
  std::size_t values_;
  SketchShape shape_;
};

}  // namespace sotto
