#pragma once

#include "sotto/codec/quantise/levels.h"
#include "sotto/codec/quantise/side.h"
#include "sotto/codec/stage.h"

namespace sotto {

struct Int4Options : RoundingOptions {
  Int4Options() : RoundingOptions(64) {}
};

// Linear and symmetric: the levels are -7 .. 7 times (the block's largest magnitude / 7), two values per byte.
class Int4 final : public Quantise {
 public:
  using Options = Int4Options;
  explicit Int4(const Int4Options& options)
      : levels_{.blocks = {static_cast<std::size_t>(options.block)}, .bits = 3, .stochastic = options.stochastic} {}

  Packing packing() const override { return Packing::of_width(levels_.width()); }
  std::size_t side_bytes(std::size_t values) const override { return levels_.blocks.side_bytes(values); }
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void check(const Quantised& in, std::size_t) const override { check_norms(in.side, "int4"); }
  void add_decoded(const Quantised& in, float scale, std::span<float> out) const override;
  Contract contract(std::size_t largest) const override;

 private:
  LevelBlocks levels_;
};

}  // namespace sotto
