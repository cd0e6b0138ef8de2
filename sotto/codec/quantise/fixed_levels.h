#pragma once

#include <cstdint>
#include <string_view>

#include "sotto/codec/quantise/levels.h"
#include "sotto/codec/quantise/side.h"
#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

namespace sotto {

// Options of int8 and int4; uint8 shares some.
struct RoundingOptions {
  explicit RoundingOptions(std::int64_t size) : block(size) {}
  static constexpr std::string_view stochastic_help = "round at random, without bias, instead of to the nearest";
  std::int64_t block;
  bool stochastic = false;
  void visit(OptionVisitor& v) {
    v.option("block", block, "values that share a scale", Bounds{1, 1U << 30});
    v.option("stochastic", stochastic, stochastic_help);
  }
};

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

struct Int4Options : RoundingOptions {
  Int4Options() : RoundingOptions(64) {}
};

// Linear and symmetric: the levels are -7 .. 7 times (the block's largest magnitude / 7), two values per byte.
class Int4 final : public Quantise {
 public:
  using Options = Int4Options;
  explicit Int4(const Int4Options& options)
      : levels_{.blocks = {static_cast<std::size_t>(options.block)}, .bits = 3, .stochastic = options.stochastic} {}

  Packing packing() const override { return Packing::of_width(levels_.width()); }
  std::size_t side_bytes(std::size_t values) const override { return levels_.blocks.side_bytes(values); }
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void check(const Quantised& in, std::size_t) const override { check_norms(in.side, "int4"); }
  void add_decoded(const Quantised& in, float scale, std::span<float> out) const override;
  Contract contract(std::size_t largest) const override;

 private:
  LevelBlocks levels_;
};

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

struct Nf4Options {
  std::int64_t block = 64;
  void visit(OptionVisitor& v) { v.option("block", block, "values that share a scale", Bounds{1, 1U << 30}); }
};

// 4-bit NormalFloat (Dettmers et al., QLoRA, NeurIPS 2023): 16 levels times the block's largest magnitude, two values
// per byte. The levels are quantiles of a normal distribution, so they are closest together near zero; -1, 0 and 1 are
// among them. Values are rounded to the nearest level.
class Nf4 final : public Quantise {
 public:
  using Options = Nf4Options;
  explicit Nf4(const Nf4Options& options) : blocks_{static_cast<std::size_t>(options.block)} {}

  Packing packing() const override { return Packing::of_width(4); }
  std::size_t side_bytes(std::size_t values) const override { return blocks_.side_bytes(values); }
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void check(const Quantised& in, std::size_t /*values*/) const override { check_norms(in.side, "nf4"); }
  void add_decoded(const Quantised& in, float scale, std::span<float> out) const override;
  Contract contract(std::size_t largest) const override;

 private:
  NormBlocks blocks_;
};

}  // namespace sotto
