#pragma once

#include "sotto/codec/quantise/levels.h"
#include "sotto/codec/stage.h"
#include "sotto/core/options.h"
#include "sotto/kernels/bits.h"

namespace sotto {

struct TernGradOptions {
  double clip = 2.5;
  bool shared = false;
  std::string pack = "bits";
  std::int64_t bits = 1;
  void visit(OptionVisitor& v) {
    v.option("clip", clip,
             "values of a segment beyond so many of their standard deviations are cut, which is a bias; 0: none",
             Bounds::at_least(0));
    v.option("shared", shared,
             "the ranks agree on the largest of their scales first, so that sums are multiples of it");
    v.option("pack", pack, "bits + 1 bits a value, or five values of bits=1 a byte", {"bits", "trits"});
    v.option("bits", bits, "of a level: 2^bits - 1 of them up to the scale", Bounds{1, 4});
  }
  // Describes a conflict between options; empty if there is none.
  std::string problem() const { return pack == "trits" && bits != 1 ? "pack=trits is for -1, 0 and 1: bits=1" : ""; }
};

// TernGrad (Wen et al., "TernGrad: Ternary Gradients to Reduce Communication in Distributed Deep Learning", NeurIPS
// 2017): s * sign(v) * Bernoulli(|v| / s), where s is the largest magnitude of a segment after clipping; clipping is
// the only bias. A value takes two bits; most are 0, which a code can exploit. If values hardly differ (their deviation
// is less than a fifth of their root mean square), clipping goes by their root mean square, so that equal values, or a
// single one, are not clipped to nothing. With a shared scale, s is the maximum over the ranks, and values are clipped
// to it.
//
// With bits > 1, values are rounded at random to 2^bits - 1 levels up to the scale instead of one. ATOMO's authors
// compared with code that does the same (its quantisation level), but takes the scale before it clips.
class TernGrad final : public Quantise, public AgreedNumbers {
 public:
  using Options = TernGradOptions;
  explicit TernGrad(const TernGradOptions& options)
      : options_(options),
        trits_(options.pack == "trits"),
        levels_{.blocks = {largest_piece}, .bits = static_cast<unsigned>(options.bits)} {}

  Packing packing() const override {
    if (!trits_) return Packing::of_width(levels_.width());
    return {.group = kernels::trit_group, .bytes = kernels::trit_bytes(kernels::trit_group)};
  }
  std::size_t side_bytes(std::size_t values) const override { return levels_.blocks.side_bytes(values); }
  std::size_t agreed_count() const override { return options_.shared ? 1 : 0; }
  void propose(std::span<const float> values, std::uint64_t place, std::span<float> numbers) override;
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void check(const Quantised& in, std::size_t values) const override;
  void add_decoded(const Quantised& in, float scale, std::span<float> out) const override;
  Contract contract(std::size_t largest) const override;

 private:
  static constexpr std::size_t largest_piece = std::size_t{1} << 62;  // one block, whatever its size
  std::optional<float> scale_of(std::span<const float> values) const;
  void write_trits(const Values& values, std::size_t begin, std::size_t end, std::span<const std::byte> side,
                   std::span<std::byte> packed) const;

  TernGradOptions options_;
  bool trits_;
  LevelBlocks levels_;
};

}  // namespace sotto
