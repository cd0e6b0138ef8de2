#pragma once

#include "sotto/codec/quantise/cast.h"

namespace sotto {

// Floats, unchanged.
class F32 final : public Cast {
 public:
  using Options = NoOptions;
  explicit F32(const NoOptions&) {}

  void check(std::span<const std::byte> side, std::span<const std::byte> packed, std::size_t values) const override;
  Contract contract(std::size_t largest) const override;

 private:
  DType type() const override { return DType::f32; }
  void convert(std::span<const float> values, float scale, std::span<std::byte> out) const override;
  void add(std::span<const std::byte> in, float scale, std::span<float> out) const override;
};

}  // namespace sotto
