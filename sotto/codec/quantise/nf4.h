#pragma once

#include "sotto/codec/quantise/levels.h"
#include "sotto/codec/stage.h"

namespace sotto {

struct Nf4Options {
  std::int64_t block = 64;
  void visit(OptionVisitor& v) { v.option("block", block, "values that share a scale", Bounds{1, 1U << 30}); }
};

// 4-bit NormalFloat (Dettmers et al., QLoRA, NeurIPS 2023): 16 levels times the block's largest magnitude, two values
// per byte. The levels are quantiles of a normal distribution, so they are closest together near zero; -1, 0 and 1 are
// among them. Values are rounded to the nearest level.
class Nf4 final : public Quantise {
 public:
  using Options = Nf4Options;
  explicit Nf4(const Nf4Options& options) : blocks_{static_cast<std::size_t>(options.block)} {}

  Packing packing() const override { return Packing::of_width(4); }
  std::size_t side_bytes(std::size_t values) const override { return blocks_.side_bytes(values); }
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void check(const Quantised& in, std::size_t /*values*/) const override { check_norms(in.side, "nf4"); }
  void add_decoded(const Quantised& in, float scale, std::span<float> out) const override;
  Contract contract(std::size_t largest) const override;

 private:
  NormBlocks blocks_;
};

}  // namespace sotto
