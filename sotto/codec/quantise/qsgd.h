#pragma once

#include "sotto/codec/quantise/levels.h"
#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

namespace sotto {

struct QsgdOptions {
  std::int64_t bits = 4;
  std::int64_t bucket = 512;
  std::string norm = "max";
  void visit(OptionVisitor& v) {
    v.option("bits", bits, "bits of magnitude; one more of sign goes with every value", Bounds{1, 8});
    v.option("bucket", bucket, "values that share a norm", Bounds{1, 1U << 30});
    v.option("norm", norm, "largest magnitude, or Euclidean norm (more levels are 0, more variance)", {"max", "l2"});
  }
};

// QSGD (Alistarh et al., NeurIPS 2017): stochastic rounding of |v| / norm to 2^bits - 1 levels, without bias.
class Qsgd final : public Quantise {
 public:
  using Options = QsgdOptions;
  explicit Qsgd(const QsgdOptions& options);

  Packing packing() const override { return Packing::of_width(levels_.width()); }
  std::size_t side_bytes(std::size_t values) const override { return levels_.blocks.side_bytes(values); }
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void check(const Quantised& in, std::size_t values) const override;
  void add_decoded(const Quantised& in, float scale, std::span<float> out) const override;
  Contract contract(std::size_t largest) const override;

 private:
  QsgdOptions options_;
  LevelBlocks levels_;
};

}  // namespace sotto
