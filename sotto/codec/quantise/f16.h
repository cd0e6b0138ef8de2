#pragma once

#include "sotto/codec/stage.h"

namespace sotto {

// IEEE binary16, rounded to nearest even. Its range is small (6e-8 .. 65504), so every 4096 values have a unit: 1 if
// their largest magnitude is in [1, 65504], otherwise the power of two that scales it into [2^14, 2^15).
class F16 final : public Quantise, public LinearForm {
 public:
  static constexpr std::size_t block = 4096;
  using Options = NoOptions;
  explicit F16(const NoOptions&) {}

  Packing packing() const override { return Packing::of_width(16); }
  std::size_t side_bytes(std::size_t values) const override;
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void check(const Quantised& in, std::size_t values) const override;
  void add_decoded(const Quantised& in, float scale, std::span<float> out) const override;
  Contract contract(std::size_t largest) const override;

 private:
  // The summed form has no units, since the ranks would have to agree on them. A value beyond 65504, or such a product,
  // does not fit; products below 6e-5 lose bits, and below 3e-8 they become 0.
  DType type() const override { return DType::f16; }
  bool write(std::span<const float> values, float scale, std::span<std::byte> out) const override;
  void add(std::span<const std::byte> in, float scale, std::span<float> out) const override;
};

}  // namespace sotto
