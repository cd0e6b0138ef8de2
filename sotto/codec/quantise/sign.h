#pragma once

#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

namespace sotto {

struct SignOptions {
  std::int64_t block = 0;
  void visit(OptionVisitor& v) {
    v.option("block", block, "values that share a scale; 0: all of a segment", Bounds{0, 1U << 30});
  }
};

// Scaled sign (EF-signSGD, Karimireddy et al., ICML 2019): one bit per value. A value decodes to its sign times the
// mean magnitude of its block. Both zeros count as positive.
class Sign final : public Quantise {
 public:
  using Options = SignOptions;
  explicit Sign(const SignOptions& options) : block_(static_cast<std::size_t>(options.block)) {}

  Packing packing() const override { return Packing::of_width(1); }
  std::size_t side_bytes(std::size_t values) const override;
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void check(const Quantised& in, std::size_t values) const override;
  void add_decoded(const Quantised& in, float scale, std::span<float> out) const override;
  Contract contract(std::size_t largest) const override;

 private:
  // The range of values of block b if there are `count` values.
  Range block_range(std::size_t b, std::size_t count) const;
  std::size_t block_;
};

// The sign alone (signSGD, Bernstein et al., ICML 2018): one bit per value, which decodes to -1 or 1. The sign of a
// zero is drawn at random. The sign of a sum of messages is the majority; a tie is zero.
class Signs final : public Quantise {
 public:
  using Options = NoOptions;
  explicit Signs(const NoOptions&) {}

  Packing packing() const override { return Packing::of_width(1); }
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void add_decoded(const Quantised& in, float scale, std::span<float> out) const override;
  Contract contract(std::size_t largest) const override;
};

}  // namespace sotto
