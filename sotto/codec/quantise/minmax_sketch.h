#pragma once

#include <memory>

#include "sotto/codec/quantise/sketch_blocks.h"
#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

namespace sotto {

struct MinMaxSketchOptions {
  std::int64_t groups = 8;
  std::int64_t rows = 2;
  double columns = 0.3;
  void visit(OptionVisitor& v) {
    v.option("groups", groups, "runs into which the bins of both signs are cut; no bin becomes one of another run",
             Bounds{SketchClasses::least_groups, SketchClasses::most_groups});
    v.option("rows", rows, "cells of a value; the one furthest from zero counts",
             Bounds{1, kernels::MinMaxCells::most_rows});
    v.option("columns", columns, "cells of a row, for each value of a group", Bounds{0.01, 1});
  }
};

// The MinMaxSketch of SketchML (Jiang et al., SIGMOD 2018) over the bins of the quantiser before it. Within its group,
// a value's bin can only move towards zero. The sketch's errors therefore all point to zero, and no contract can bound
// them; rounding to the middle of a bin has errors of both signs.
//
// Values are sketched in blocks, each as if alone; the cells of a block fit in the cache. The paper codes the keys of
// each group separately, which tells the group of each value. Here each value is sent with its class instead
// (docs/wire).
class MinMaxSketch final : public Quantise, public WholeUnits, public BinSketch {
 public:
  using Options = MinMaxSketchOptions;
  explicit MinMaxSketch(const MinMaxSketchOptions& options)
      : options_(options),
        shape_{static_cast<std::size_t>(options.groups), static_cast<unsigned>(options.rows), options.columns} {}
  static constexpr std::size_t block = SketchBlock::size;

  std::size_t side_bytes(std::size_t values) const override;
  std::size_t max_packed_bytes(std::size_t values) const override;
  std::size_t packed_size(std::span<const std::byte> side, std::size_t values) const override;
  void list_runs(std::span<const std::byte> side, std::size_t values, std::vector<SymbolRun>& runs) const override;
  RunLimits run_limits(std::size_t values) const override;
  void reserve(std::optional<std::uint64_t> place, std::size_t values) override { quantise_->reserve(place, values); }
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void check(const Quantised& in, std::size_t values) const override;
  void add_decoded(const Quantised& in, float scale, std::span<float> out) const override;
  Contract contract(std::size_t largest) const override { return quantise_->contract(largest); }

  void use_bins(std::unique_ptr<Quantise> quantise) override {
    quantise_ = std::move(quantise);
    bins_ = dynamic_cast<Bins*>(quantise_.get());
  }

 private:
  static constexpr std::size_t most_cells = kernels::MinMaxCells::most_rows * (block + 1);  // of a block

  std::size_t groups() const { return shape_.groups; }
  unsigned rows() const { return shape_.rows; }
  std::size_t most_bytes(std::size_t values) const;  // the most bytes of a block
  std::size_t blocks_a_task() const;
  SketchBlocks blocks(std::span<const std::byte> side, std::size_t values, const BinValues& bins) const;
  // Encodes the block of a unit that starts at value `first`; returns how many bytes it wrote to the front of `packed`.
  std::size_t encode_block(std::span<const float> values, std::uint64_t first, const SketchBlocks& blocks,
                           std::byte* counts, std::span<std::byte> packed) const;

  MinMaxSketchOptions options_;
  SketchShape shape_;
  std::unique_ptr<Quantise> quantise_;  // makes the bins
  Bins* bins_ = nullptr;                // the same object
};

}  // namespace sotto
