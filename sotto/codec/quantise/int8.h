#pragma once

#include "sotto/codec/quantise/levels.h"
#include "sotto/codec/quantise/side.h"
#include "sotto/codec/stage.h"

namespace sotto {

struct Int8Options : RoundingOptions {
  Int8Options() : RoundingOptions(256) {}
};

// Linear and symmetric: the levels are -127 .. 127 times (the block's largest magnitude / 127).
class Int8 final : public Quantise {
 public:
  using Options = Int8Options;
  explicit Int8(const Int8Options& options) : options_(options), blocks_{static_cast<std::size_t>(options.block)} {}

  Packing packing() const override { return Packing::of_width(8); }
  std::size_t side_bytes(std::size_t values) const override { return blocks_.side_bytes(values); }
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void check(const Quantised& in, std::size_t values) const override;
  void add_decoded(const Quantised& in, float scale, std::span<float> out) const override;
  Contract contract(std::size_t largest) const override;

 private:
  Int8Options options_;
  NormBlocks blocks_;
};

}  // namespace sotto
