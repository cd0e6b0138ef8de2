#include "sotto/codec/quantise/minmax_sketch.h"

#include <algorithm>
#include <cstring>

#include "sotto/codec/select/candidates.h"
#include "sotto/codec/shared_work.h"
#include "sotto/core/error.h"
#include "sotto/kernels/bits.h"
#include "sotto/kernels/count.h"
#include "sotto/kernels/load.h"

namespace sotto {
namespace {

constexpr std::size_t block = MinMaxSketch::block;
constexpr std::uint32_t zeros_flag = 1U << 31U;  // of a block's head, whose other bits are the bytes of its cells
using Symbols = std::array<std::uint16_t, block>;
using Counts = std::array<std::uint32_t, kernels::MinMaxCells::most_classes>;

Counts count_classes(std::span<const std::uint16_t> classes) {
  Counts counts{};
  kernels::count_symbols(classes, counts);
  return counts;
}

void check_end(std::span<const std::byte> packed, std::size_t bits) {
  if (kernels::zeros_behind(packed, bits)) return;
  throw WireError("minmax_sketch: bits behind the last class or cell that are not zero");
}

// A block of a message: the classes of its values, and behind them the cells of its classes.
struct Block {
  const SketchClasses* classes;
  Range values;  // of the unit
  std::size_t cell_bytes;
  std::size_t class_bytes() const { return kernels::packed_bytes(values.size(), classes->width()); }
  std::size_t bytes() const { return class_bytes() + cell_bytes; }
};

// The classes of its values.
std::span<std::uint16_t> read_classes(const Block& its, std::span<const std::byte> bytes, Symbols& room) {
  const auto symbols = std::span(room).first(its.values.size());
  if (its.classes->width() == 0) {
    std::ranges::fill(symbols, std::uint16_t{0});
  } else {
    kernels::unpack_bits(bytes.first(its.class_bytes()), its.classes->width(), symbols);
  }
  return symbols;
}

}  // namespace

// The blocks of a message.
class MinMaxSketch::Reader {
 public:
  Reader(std::span<const std::byte> side, std::size_t values, std::size_t bins_bytes, std::size_t groups)
      : bins(side.first(bins_bytes)),
        forms_{SketchClasses(bins, groups, false), SketchClasses(bins, groups, true)},
        heads_(side.subspan(bins_bytes)),
        values_(values) {}

  std::size_t blocks() const { return heads_.size() / sizeof(std::uint32_t); }
  Block operator[](std::size_t b) const {
    const auto head = kernels::load<std::uint32_t>(heads_.data(), b);
    return {&forms_[head >= zeros_flag ? 1 : 0], {b * block, std::min((b + 1) * block, values_)}, head & ~zeros_flag};
  }
  std::size_t bytes(std::size_t begin, std::size_t end) const {
    std::size_t sum = 0;
    for (std::size_t b = begin; b < end; ++b) sum += (*this)[b].bytes();
    return sum;
  }
  // visit(block, bytes) for all blocks, on all threads.
  template <class Visit>
  void visit(Workers& workers, std::size_t grain, std::span<const std::byte> packed, Visit visit) const {
    fill_in_order(
        workers, blocks(), grain, [&](std::size_t begin, std::size_t end) { return bytes(begin, end); },
        [&](std::size_t begin, std::size_t end, std::size_t place) {
          for (std::size_t b = begin; b < end; ++b) {
            const Block its = (*this)[b];
            visit(its, packed.subspan(place, its.bytes()));
            place += its.bytes();
          }
        });
  }

  const BinValues bins;

 private:
  std::array<SketchClasses, 2> forms_;  // without zeros and with some
  std::span<const std::byte> heads_;
  std::size_t values_;
};

std::string MinMaxSketch::sentence() const {
  const std::string own = record_options("minmax_sketch", options_);
  return bins_ ? bins_->sentence() + " | " + own : own;
}

std::size_t MinMaxSketch::side_bytes(std::size_t values) const {
  return bins_->side_bytes(values) + (values + block - 1) / block * sizeof(std::uint32_t);
}

std::size_t MinMaxSketch::most_bytes(std::size_t values) const {
  if (values == 0) return 0;
  const std::size_t columns = std::min(share_of(options_.columns, values) + 2 * groups(), values);
  const std::size_t longest = (bins_->bins()->most_bins() - 1 + groups() - 1) / groups();
  return kernels::packed_bytes(values, SketchClasses::width_of(2 * groups() + 1)) +
         kernels::packed_bytes(rows() * columns, SketchClasses::width_of(longest)) + 2 * groups();
}

std::size_t MinMaxSketch::packed_bytes(std::size_t values) const {
  return values / block * most_bytes(block) + most_bytes(values % block);
}

std::size_t MinMaxSketch::blocks_a_task() const { return std::max<std::size_t>(workers().grain() / block, 1); }

std::size_t MinMaxSketch::packed_size(std::span<const std::byte> side, std::size_t values) const {
  const std::size_t bins_bytes = bins_->side_bytes(values);
  check_bins(side.first(bins_bytes));
  const Reader reader(side, values, bins_bytes, groups());
  for (std::size_t b = 0; b < reader.blocks(); ++b) {
    const Block its = reader[b];
    if (its.classes->count() == 0) throw WireError("minmax_sketch: a block without a class");
    if (its.bytes() > most_bytes(its.values.size())) throw WireError("minmax_sketch: more cells than values can have");
  }
  return reader.bytes(0, reader.blocks());
}

bool MinMaxSketch::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  const std::size_t count = values.data.size();
  const std::size_t bins_bytes = bins_->side_bytes(count);
  if (!bins_->bins()->find(workers(), values.data, side.first(bins_bytes))) return false;
  const BinValues bins(side.first(bins_bytes));
  const auto heads = side.subspan(bins_bytes);
  const std::size_t most = most_bytes(block);
  std::size_t total = 0;
  // Each task writes where there is room in any case; what it wrote is moved down.
  join_in_order<std::size_t>(
      workers(), (count + block - 1) / block, blocks_a_task(),
      [&](std::size_t begin, std::size_t end) {
        std::size_t written = 0;
        for (std::size_t b = begin; b < end; ++b) {
          written += encode_block(values.data.subspan(b * block, std::min(block, count - b * block)), b * block, bins,
                                  heads.data() + b * sizeof(std::uint32_t), packed.subspan(begin * most + written));
        }
        return written;
      },
      [&](std::size_t begin, std::size_t written) {
        std::memmove(packed.data() + total, packed.data() + begin * most, written);
        total += written;
      });
  return true;
}

std::size_t MinMaxSketch::encode_block(std::span<const float> values, std::uint64_t first, const BinValues& bins,
                                       std::byte* head, std::span<std::byte> packed) const {
  Symbols bin_of;
  Symbols class_of;
  const auto levels = std::span(bin_of).first(values.size());
  const auto symbols = std::span(class_of).first(values.size());
  bins_->bins()->place(values, levels);
  const bool zeros = std::ranges::find(levels, std::uint16_t{0}) != levels.end();
  const SketchClasses classes(bins, groups(), zeros);
  for (std::size_t j = 0; j < values.size(); ++j) {
    symbols[j] = classes.class_of()[levels[j]];
    levels[j] = classes.level_of()[levels[j]];
  }
  const SketchCells cells(classes, count_classes(symbols), rows(), options_.columns);
  std::array<std::uint16_t, most_cells> levels_of_cells;
  std::fill_n(levels_of_cells.begin() + static_cast<std::ptrdiff_t>(cells.count), rows(), std::uint16_t{0});
  cells.visit(classes, [&](const SketchClasses::Class& its, Range range, Range) {
    std::fill_n(levels_of_cells.begin() + static_cast<std::ptrdiff_t>(range.begin), range.size(),
                static_cast<std::uint16_t>(its.bins - 1));
  });
  kernels::insert_least(symbols, levels, cells.at, first, levels_of_cells.data());

  kernels::store(head, 0, static_cast<std::uint32_t>(cells.bytes) | (zeros ? zeros_flag : 0));
  const Block its{&classes, {0, values.size()}, cells.bytes};
  if (classes.width() > 0) kernels::pack_bits(symbols, classes.width(), packed.first(its.class_bytes()));
  cells.visit(classes, [&](const SketchClasses::Class& of, Range range, Range bytes) {
    kernels::pack_bits(std::span(levels_of_cells).subspan(range.begin, range.size()), of.width(),
                       packed.subspan(its.class_bytes() + bytes.begin, bytes.size()));
  });
  return its.bytes();
}

void MinMaxSketch::check(std::span<const std::byte> side, std::span<const std::byte> packed, std::size_t values) const {
  const Reader reader(side, values, bins_->side_bytes(values), groups());
  reader.visit(workers(), blocks_a_task(), packed, [&](const Block& its, std::span<const std::byte> bytes) {
    const SketchClasses& classes = *its.classes;
    Symbols room;
    const auto symbols = read_classes(its, bytes, room);
    check_end(bytes.first(its.class_bytes()), symbols.size() * classes.width());
    if (*std::ranges::max_element(symbols) >= classes.count()) throw WireError("minmax_sketch: an unknown class");
    const Counts counts = count_classes(symbols);
    if (classes[0].base == 0 && counts[0] == 0) throw WireError("minmax_sketch: a block of zeros without any");
    const SketchCells cells(classes, counts, rows(), options_.columns);
    if (cells.bytes != its.cell_bytes) {
      throw WireError("minmax_sketch: more or fewer cells than the classes call for");
    }
    std::array<std::uint16_t, most_cells> levels;
    cells.visit(classes, [&](const SketchClasses::Class& of, Range range, Range where) {
      const auto packed_levels = bytes.subspan(its.class_bytes() + where.begin, where.size());
      const auto some = std::span(levels).first(range.size());
      kernels::unpack_bits(packed_levels, of.width(), some);
      check_end(packed_levels, some.size() * of.width());
      if (*std::ranges::max_element(some) >= of.bins) {
        throw WireError("minmax_sketch: a cell with a bin that is not of its group");
      }
    });
  });
}

void MinMaxSketch::add_decoded(std::span<const std::byte> side, std::span<const std::byte> packed, float scale,
                               std::span<float> out) const {
  const Reader reader(side, out.size(), bins_->side_bytes(out.size()), groups());
  BinValues terms = reader.bins;
  for (float& value : terms.values) value *= scale;
  reader.visit(workers(), blocks_a_task(), packed, [&](const Block& its, std::span<const std::byte> bytes) {
    const SketchClasses& classes = *its.classes;
    Symbols room;
    Symbols found;
    const auto symbols = read_classes(its, bytes, room);
    const SketchCells cells(classes, count_classes(symbols), rows(), options_.columns);
    std::array<std::uint16_t, most_cells> levels;
    cells.visit(classes, [&](const SketchClasses::Class& of, Range range, Range where) {
      kernels::unpack_bits(bytes.subspan(its.class_bytes() + where.begin, where.size()), of.width(),
                           std::span(levels).subspan(range.begin, range.size()));
    });
    std::fill_n(levels.begin() + static_cast<std::ptrdiff_t>(cells.count), rows(), std::uint16_t{0});
    const auto bins = std::span(found).first(symbols.size());
    kernels::find_largest(symbols, cells.at, its.values.begin, levels.data(), bins);
    for (std::size_t j = 0; j < bins.size(); ++j) {
      bins[j] = static_cast<std::uint16_t>(bins[j] + classes[symbols[j]].base);
    }
    kernels::add_terms(bins, terms.values.data(), out.subspan(its.values.begin, bins.size()));
  });
}

}  // namespace sotto
