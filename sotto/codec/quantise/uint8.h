#pragma once

#include "sotto/codec/quantise/levels.h"
#include "sotto/codec/quantise/side.h"
#include "sotto/codec/stage.h"

namespace sotto {

struct UInt8Options {
  std::int64_t block = 256;
  bool stochastic = false;
  void visit(OptionVisitor& v) {
    // With more values in a block, the error could exceed the values: 0 is not among the levels.
    v.option("block", block, "values that share their two ends", Bounds{1, 1U << 15});
    v.option("stochastic", stochastic, RoundingOptions::stochastic_help);
  }
};

// Linear from the smallest to the largest value of a block, in 255 steps. int8 represents zero exactly; uint8
// represents both ends exactly, and its steps are half as large or smaller if all values lie on one side of zero.
// BAGUA's compression (Gan et al., PVLDB 15(4), 2021) sends as many bytes, but its levels are multiples of the step, so
// it represents zero exactly, not the ends.
class UInt8 final : public Quantise {
 public:
  using Options = UInt8Options;
  explicit UInt8(const UInt8Options& options)
      : options_(options), blocks_{static_cast<std::size_t>(options.block), 2} {}

  Packing packing() const override { return Packing::of_width(8); }
  std::size_t side_bytes(std::size_t values) const override { return blocks_.side_bytes(values); }
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void check(const Quantised& in, std::size_t values) const override;
  void add_decoded(const Quantised& in, float scale, std::span<float> out) const override;
  Contract contract(std::size_t largest) const override;

 private:
  UInt8Options options_;
  NormBlocks blocks_;
};

}  // namespace sotto
