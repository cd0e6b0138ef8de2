#pragma once

#include "sotto/codec/quantise/side.h"
#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

namespace sotto {

// Natural compression (Horvath et al., 2019): a value becomes one of the two powers of two beside it, at random and
// without bias, with a variance of at most 1/8 of its square. A sign and seven bits of exponent are a byte, since every
// 4096 values have a unit, the power of two below their largest magnitude: so powers reach from twice the unit down to
// 2^-125 of it, and what is smaller becomes that or 0. In place of 2^128, which is no float, the largest float stands.
class Natural final : public Quantise {
 public:
  static constexpr std::size_t block = 4096;
  using Options = NoOptions;
  explicit Natural(const NoOptions&) {}

  unsigned width() const override { return 8; }
  std::size_t side_bytes(std::size_t values) const override { return block_count(values, block) * sizeof(float); }
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void check(std::span<const std::byte> side, std::span<const std::byte> packed, std::size_t values) const override;
  void add_decoded(std::span<const std::byte> side, std::span<const std::byte> packed, float scale,
                   std::span<float> out) const override;
  Contract contract(std::size_t largest) const override;
};

}  // namespace sotto
