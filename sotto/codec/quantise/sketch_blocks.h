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

// Some values of a unit. A message has their classes, and then the cells of each class.
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
