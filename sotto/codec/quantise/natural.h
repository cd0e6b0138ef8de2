#pragma once

#include "sotto/codec/quantise/side.h"
#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

namespace sotto {

// Natural compression (Horvath et al., 2019): a value becomes one of its two neighbouring powers of two, at random and
// without bias; the variance is at most 1/8 of its square. A sign and seven bits of exponent fit a byte, since every
// 4096 values have a unit, the power of two below their largest magnitude: the powers range from twice the unit down to
// 2^-125 units, and smaller values become that or 0. The largest float replaces 2^128, which is no float.
class Natural final : public Quantise {
 public:
  static constexpr std::size_t block = 4096;
  using Options = NoOptions;
  explicit Natural(const NoOptions&) {}

  Packing packing() const override { return Packing::of_width(8); }
  std::size_t side_bytes(std::size_t values) const override { return block_count(values, block) * sizeof(float); }
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void check(const Quantised& in, std::size_t values) const override;
  void add_decoded(const Quantised& in, float scale, std::span<float> out) const override;
  Contract contract(std::size_t largest) const override;
};

}  // namespace sotto
