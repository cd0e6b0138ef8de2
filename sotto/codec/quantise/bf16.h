#pragma once

#include "sotto/codec/quantise/cast.h"

namespace sotto {

// bfloat16: the upper half of a float, rounded to nearest even. It saturates at 3.39e38 instead of becoming infinite.
class BF16 final : public Cast {
 public:
  using Options = NoOptions;
  explicit BF16(const NoOptions&) {}

  void check(std::span<const std::byte> side, std::span<const std::byte> packed, std::size_t values) const override;
  Contract contract(std::size_t largest) const override;

 private:
  DType type() const override { return DType::bf16; }
  void convert(std::span<const float> values, float scale, std::span<std::byte> out) const override;
  void add(std::span<const std::byte> in, float scale, std::span<float> out) const override;
};

}  // namespace sotto
