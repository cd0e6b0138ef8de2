#pragma once

#include "sotto/codec/quantise/levels.h"
#include "sotto/codec/quantise/side.h"
#include "sotto/codec/stage.h"

namespace sotto {

struct UInt8Options {
  std::int64_t block = 256;
  bool stochastic = false;
  void visit(OptionVisitor& v) {
    // The error of more values could exceed what they are: 0 is not among the levels.
    v.option("block", block, "values that share their two ends", Bounds{1, 1U << 15});
    v.option("stochastic", stochastic, RoundingOptions::stochastic_help);
  }
};

// Linear from the least to the largest value of a block, in 255 steps. Where int8 keeps zero, this keeps both ends, and
// where values lie on one side of zero, or far from it, its steps are half as large or smaller. BAGUA's compression
// (Gan et al., PVLDB 15(4), 2021) sends as much, but its levels are whole multiples of the step: it keeps zero, not the
// ends.
class UInt8 final : public Quantise {
 public:
  using Options = UInt8Options;
  explicit UInt8(const UInt8Options& options)
      : options_(options), blocks_{static_cast<std::size_t>(options.block), 2} {}

  unsigned width() const override { return 8; }
  std::size_t side_bytes(std::size_t values) const override { return blocks_.side_bytes(values); }
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void check(std::span<const std::byte> side, std::span<const std::byte> packed, std::size_t values) const override;
  void add_decoded(std::span<const std::byte> side, std::span<const std::byte> packed, float scale,
                   std::span<float> out) const override;
  Contract contract(std::size_t largest) const override;

 private:
  UInt8Options options_;
  NormBlocks blocks_;
};

}  // namespace sotto
