#pragma once

#include "sotto/codec/stage.h"

namespace sotto {

// Floats as they are.
class F32 final : public Quantise, private LinearForm {
 public:
  using Options = NoOptions;
  explicit F32(const NoOptions&) {}

  std::string sentence() const override { return "f32"; }
  unsigned width() const override { return 32; }
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void check(std::span<const std::byte> side, std::span<const std::byte> packed) const override;
  void add_decoded(std::span<const std::byte> side, std::span<const std::byte> packed, float scale,
                   std::span<float> out) const override;
  Contract contract(std::size_t largest) const override;
  const LinearForm* linear() const override { return this; }

 private:
  DType type() const override { return DType::f32; }
  bool write(std::span<const float> values, float scale, std::span<std::byte> out) const override;
  void add(std::span<const std::byte> in, float scale, std::span<float> out) const override;
};

}  // namespace sotto
