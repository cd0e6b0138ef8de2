#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sotto/codec/quantise/sketch_classes.h"
#include "sotto/codec/shared_work.h"
#include "sotto/codec/stage.h"

namespace sotto {

struct SketchShape {
  std::size_t groups = 8;
  unsigned rows = 2;
  double columns = 0.3;
};

// Some values of a unit: in a message their classes stand, and then the cells of each class.
struct SketchBlock {
  static constexpr std::size_t size = 16384;  // values, but of the last one
  const SketchClasses* classes;
  Range values;  // of the unit
  SketchCells cells;
  std::size_t class_bytes() const { return kernels::packed_bytes(values.size(), classes->width()); }
  std::size_t bytes() const { return class_bytes() + cells.bytes; }
};

// The blocks of a unit. Behind its bins the side information says of each how many values every class has: 16 bits for
// zeros and for each group there can be, and as many more as make words of 32 bits.
class SketchBlocks {
 public:
  static std::size_t count(std::size_t values) { return (values + SketchBlock::size - 1) / SketchBlock::size; }
  static std::size_t side_bytes(std::size_t values, std::size_t groups) {
    return count(values) * (groups / 2 + 1) * sizeof(std::uint32_t);
  }

  // `side` is that of the blocks alone; of a writer who fills it, larger than what it reads.
  SketchBlocks(const BinValues& bins, std::span<const std::byte> side, std::size_t values, const SketchShape& shape);

  std::size_t count() const { return count(values_); }
  const SketchClasses& classes(bool zeros) const { return forms_[zeros ? 1 : 0]; }
  SketchBlock operator[](std::size_t b) const;
  // What a block is said to have of each class.
  SketchCounts counts(std::size_t b) const;
  // What operator[] and counts() then read.
  static void store(const SketchCounts& counts, bool zeros, std::size_t groups, std::byte* side);
  // WireError unless the counts of every block add up to its values, and are of classes that there are.
  void check() const;

  std::size_t bytes(std::size_t begin, std::size_t end) const;
  // The symbols of its blocks: classes, and cells as the other kind.
  void list_runs(std::vector<SymbolRun>& runs) const;
  // visit(b, block, bytes) for all blocks, on all threads.
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

  std::array<SketchClasses, 2> forms_;  // without zeros and with some
  std::span<const std::byte> side_;
  std::size_t values_;
  SketchShape shape_;
};

}  // namespace sotto
