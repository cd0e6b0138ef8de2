#pragma once

#include "sotto/codec/quantise/side.h"
#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

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
  // The linear form has no units, since the ranks would have to agree on them. A value or product beyond 65504 does not
  // fit. Products below 6e-5 lose bits, and products below 3e-8 become 0.
  DType type() const override { return DType::f16; }
  bool write(std::span<const float> values, float scale, std::span<std::byte> out) const override;
  void add(std::span<const std::byte> in, float scale, std::span<float> out) const override;
};

struct Fp8Options {
  std::string format = "e4m3";
  std::int64_t block = 256;
  void visit(OptionVisitor& v) {
    v.option("format", format, "three bits of mantissa, or two and a wider range", {"e4m3", "e5m2"});
    v.option("block", block, "values that share a unit", Bounds{1, 1U << 30});
  }
};

// The 8-bit floats of the OCP specification (2023; Micikevicius et al., 2022): e4m3 up to 448, e5m2 up to 57344,
// rounded to nearest even and never infinite. Every block has a unit, the smallest power of two that brings its largest
// magnitude within that range, so that small gradients keep their bits and nothing saturates.
class Fp8 final : public Quantise {
 public:
  using Options = Fp8Options;
  explicit Fp8(const Fp8Options& options)
      : e4m3_(options.format == "e4m3"), block_(static_cast<std::size_t>(options.block)) {}

  Packing packing() const override { return Packing::of_width(8); }
  std::size_t side_bytes(std::size_t values) const override { return block_count(values, block_) * sizeof(float); }
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void check(const Quantised& in, std::size_t values) const override;
  void add_decoded(const Quantised& in, float scale, std::span<float> out) const override;
  Contract contract(std::size_t largest) const override;

 private:
  bool e4m3_;
  std::size_t block_;
};

// Natural compression (Horvath et al., 2019): a value becomes one of its two neighbouring powers of two, at random and
// without bias; the variance is at most 1/8 of its square. A sign and seven bits of exponent fit a byte, since every
// 4096 values have a unit, the power of two below their largest magnitude: the powers range from twice the unit down to
// 2^-125 units, and smaller values become 2^-125 units or 0. The largest float replaces 2^128, which is no float.
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
