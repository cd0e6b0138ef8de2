#pragma once

#include "sotto/codec/quantise/side.h"
#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

namespace sotto {

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

}  // namespace sotto
