#include "sotto/codec/quantise/minmax_sketch.h"

#include "sotto/codec/select/candidates.h"

namespace sotto {
namespace {

constexpr std::size_t block = MinMaxSketch::block;
using Symbols = std::array<std::uint16_t, block>;

SketchCounts count_classes(std::span<const std::uint16_t> classes) {
  SketchCounts counts{};
  kernels::count_symbols(classes, counts);
  return counts;
}

void check_end(std::span<const std::byte> packed, std::size_t bits) {
  if (kernels::tail_is_zero(packed, bits)) return;
  throw WireError("minmax_sketch: bits after the last class or cell that are not zero");
}

// Reads the class of each value of the block.
std::span<std::uint16_t> read_classes(const SketchBlock& its, std::span<const std::byte> bytes, Symbols& room) {
  const auto symbols = std::span(room).first(its.values.size());
  if (its.classes->width() == 0) {
    std::ranges::fill(symbols, std::uint16_t{0});
  } else {
    kernels::unpack_bits(bytes.first(its.class_bytes()), its.classes->width(), symbols);
  }
  return symbols;
}

}  // namespace

std::size_t MinMaxSketch::side_bytes(std::size_t values) const {
  return quantise_->side_bytes(values) + SketchBlocks::side_bytes(values, groups());
}

std::size_t MinMaxSketch::most_bytes(std::size_t values) const {
  if (values == 0) return 0;
  const std::size_t columns = std::min(share_of(options_.columns, values) + groups(), values);
  const std::size_t longest = SketchClasses::longest(bins_->most_bins() - 1, groups());
  return kernels::packed_bytes(values, SketchClasses::width_of(groups() + 1)) +
         kernels::packed_bytes(rows() * columns, SketchClasses::width_of(longest)) + groups();
}

std::size_t MinMaxSketch::max_packed_bytes(std::size_t values) const {
  return values / block * most_bytes(block) + most_bytes(values % block);
}

std::size_t MinMaxSketch::blocks_a_task() const { return std::max<std::size_t>(pool().grain() / block, 1); }

SketchBlocks MinMaxSketch::blocks(std::span<const std::byte> side, std::size_t values, const BinValues& bins) const {
  return {bins, side.subspan(quantise_->side_bytes(values)), values, shape_};
}

std::size_t MinMaxSketch::packed_size(std::span<const std::byte> side, std::size_t values) const {
  const auto of_bins = side.first(quantise_->side_bytes(values));
  check_bins(of_bins);
  const SketchBlocks all = blocks(side, values, BinValues(of_bins));
  all.check();
  return all.bytes(0, all.count());
}

void MinMaxSketch::list_runs(std::span<const std::byte> side, std::size_t values, std::vector<SymbolRun>& runs) const {
  blocks(side, values, BinValues(side.first(quantise_->side_bytes(values)))).list_runs(runs);
}

RunLimits MinMaxSketch::run_limits(std::size_t values) const {
  return {SketchBlocks::count(values) * (groups() + 2), values * rows()};
}

bool MinMaxSketch::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  const std::size_t count = values.data.size();
  const auto of_bins = side.first(quantise_->side_bytes(count));
  if (!bins_->find(pool(), values.data, of_bins)) return false;
  const SketchBlocks all = blocks(side, count, BinValues(of_bins));
  const auto counts = side.subspan(of_bins.size());
  const std::size_t most = most_bytes(block);
  std::size_t total = 0;
  // Each task writes to a place where it surely has room; its output is then moved to its final place.
  join_in_order<std::size_t>(
      pool(), all.count(), blocks_a_task(),
      [&](std::size_t begin, std::size_t end) {
        std::size_t written = 0;
        for (std::size_t b = begin; b < end; ++b) {
          written += encode_block(values.data.subspan(b * block, std::min(block, count - b * block)), b * block, all,
                                  counts.data() + b * SketchBlocks::side_bytes(1, groups()),
                                  packed.subspan(begin * most + written));
        }
        return written;
      },
      [&](std::size_t begin, std::size_t written) {
        std::memmove(packed.data() + total, packed.data() + begin * most, written);
        total += written;
      });
  return true;
}

std::size_t MinMaxSketch::encode_block(std::span<const float> values, std::uint64_t first, const SketchBlocks& blocks,
                                       std::byte* counts, std::span<std::byte> packed) const {
  Symbols bin_of;
  Symbols class_of;
  const auto levels = std::span(bin_of).first(values.size());
  const auto symbols = std::span(class_of).first(values.size());
  bins_->place(values, levels);
  std::array<std::uint32_t, kernels::most_bins> of_bins{};
  kernels::count_symbols(levels, of_bins);
  const bool zeros = of_bins[0] > 0;
  const SketchClasses& classes = blocks.classes(zeros);
  SketchCounts of_classes{};
  std::array<std::uint16_t, kernels::most_bins> both;  // class << 8 | level of each bin
  for (std::size_t bin = 0; bin < of_bins.size(); ++bin) {
    of_classes[classes.class_of()[bin]] += of_bins[bin];
    both[bin] = static_cast<std::uint16_t>(classes.class_of()[bin] << 8 | classes.level_of()[bin]);
  }
  for (std::uint16_t& level : levels) level = both[level];
  for (std::size_t j = 0; j < values.size(); ++j) {
    symbols[j] = levels[j] >> 8;
    levels[j] &= 0xFFU;
  }
  SketchBlocks::store(of_classes, zeros, groups(), counts);
  const SketchBlock its{&classes, {0, values.size()}, SketchCells(classes, of_classes, rows(), options_.columns)};
  const SketchCells& cells = its.cells;
  std::array<std::uint16_t, most_cells> levels_of_cells;
  std::fill_n(levels_of_cells.begin() + static_cast<std::ptrdiff_t>(cells.count), rows(), std::uint16_t{0});
  cells.visit(classes, [&](const SketchClasses::Class& of, Range range, Range) {
    std::fill_n(levels_of_cells.begin() + static_cast<std::ptrdiff_t>(range.begin), range.size(),
                static_cast<std::uint16_t>(of.bins - 1));
  });
  kernels::insert_least(symbols, levels, cells.at, first, levels_of_cells.data());

  if (classes.width() > 0) kernels::pack_bits(symbols, classes.width(), packed.first(its.class_bytes()));
  cells.visit(classes, [&](const SketchClasses::Class& of, Range range, Range bytes) {
    kernels::pack_bits(std::span(levels_of_cells).subspan(range.begin, range.size()), of.width(),
                       packed.subspan(its.class_bytes() + bytes.begin, bytes.size()));
  });
  return its.bytes();
}

void MinMaxSketch::check(const Quantised& in, std::size_t values) const {
  const SketchBlocks all = blocks(in.side, values, BinValues(in.side.first(quantise_->side_bytes(values))));
  all.visit(pool(), blocks_a_task(), in.packed,
            [&](std::size_t b, const SketchBlock& its, std::span<const std::byte> bytes) {
              const SketchClasses& classes = *its.classes;
              Symbols room;
              const auto symbols = read_classes(its, bytes, room);
              check_end(bytes.first(its.class_bytes()), symbols.size() * classes.width());
              if (*std::ranges::max_element(symbols) >= classes.count())
                throw WireError("minmax_sketch: an unknown class");
              if (count_classes(symbols) != all.counts(b)) {
                throw WireError("minmax_sketch: a class of more or fewer values than it is said to have");
              }
              std::array<std::uint16_t, most_cells> levels;
              its.cells.visit(classes, [&](const SketchClasses::Class& of, Range range, Range where) {
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

void MinMaxSketch::add_decoded(const Quantised& in, float scale, std::span<float> out) const {
  BinValues terms(in.side.first(quantise_->side_bytes(out.size())));
  const SketchBlocks all = blocks(in.side, out.size(), terms);
  for (float& value : terms.values) value *= scale;
  all.visit(pool(), blocks_a_task(), in.packed,
            [&](std::size_t, const SketchBlock& its, std::span<const std::byte> bytes) {
              const SketchClasses& classes = *its.classes;
              Symbols room;
              Symbols found;
              const auto symbols = read_classes(its, bytes, room);
              std::array<std::uint16_t, most_cells> levels;
              its.cells.visit(classes, [&](const SketchClasses::Class& of, Range range, Range where) {
                kernels::unpack_bits(bytes.subspan(its.class_bytes() + where.begin, where.size()), of.width(),
                                     std::span(levels).subspan(range.begin, range.size()));
              });
              std::fill_n(levels.begin() + static_cast<std::ptrdiff_t>(its.cells.count), rows(), std::uint16_t{0});
              const auto bins = std::span(found).first(symbols.size());
              kernels::find_largest(symbols, its.cells.at, its.values.begin, levels.data(), bins);
              for (std::size_t j = 0; j < bins.size(); ++j) {
                bins[j] = static_cast<std::uint16_t>(bins[j] + classes[symbols[j]].base);
              }
              kernels::add_terms(bins, terms.values.data(), out.subspan(its.values.begin, bins.size()));
            });
}

}  // namespace sotto
