#pragma once

#include "sotto/codec/quantise/levels.h"
#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

namespace sotto {

struct TernGradOptions {
  double clip = 2.5;
  void visit(OptionVisitor& v) {
    v.option("clip", clip, "values of a segment beyond so many times their root mean square are cut; 0: none",
             Bounds::at_least(0));
  }
};

// TernGrad (Wen et al., NeurIPS 2017): s * sign(v) * Bernoulli(|v| / s), s being the largest magnitude of a segment
// after values were cut, which is the only bias. Two bits a value; a code behind it finds that most are 0. The paper's
// standard deviation is taken about 0, so that equal values, or a single one, are not cut to nothing.
class TernGrad final : public Quantise {
 public:
  using Options = TernGradOptions;
  explicit TernGrad(const TernGradOptions& options) : options_(options) {}

  std::string sentence() const override { return record_options("terngrad", options_); }
  unsigned width() const override { return levels_.width(); }
  std::size_t side_bytes(std::size_t values) const override { return levels_.blocks.side_bytes(values); }
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void check(std::span<const std::byte> side, std::span<const std::byte>, std::size_t) const override {
    check_norms(side, "terngrad");
  }
  void add_decoded(std::span<const std::byte> side, std::span<const std::byte> packed, float scale,
                   std::span<float> out) const override;
  Contract contract(std::size_t largest) const override;

 private:
  static constexpr std::size_t largest_piece = std::size_t{1} << 62;  // one block, whatever its size
  TernGradOptions options_;
  LevelBlocks levels_{.blocks = {largest_piece}, .bits = 1};
};

}  // namespace sotto
