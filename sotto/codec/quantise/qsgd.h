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

struct AdaptiveOptions {
  double error = 0.3;
  std::int64_t bits = 8;
  std::int64_t bucket = 512;
  void visit(OptionVisitor& v) {
    v.option("error", error, "relative error that a segment may have: sqrt(E|C(x)-x|^2) / |x|", Bounds::positive());
    v.option("bits", bits, "the most bits of magnitude; one more of sign goes with every value", Bounds{1, 8});
    v.option("bucket", bucket, "values that share a norm", Bounds{1, 1U << 30});
  }
};

// Stochastic rounding to 2^b - 1 levels as in qsgd, where b is chosen for each segment: the smallest b whose variance
// bound, sum(norm^2 n) / (2 (2^b - 1))^2 over buckets of n values, is within the error budget, or else the maximum.
// Segments with a few large values thus get more bits than segments of similar values, and the budget holds in every
// step unless the maximum is too small for it. L-GreCo also chooses bits by an error constraint, for each layer
// (Alimohammadi et al., "L-GreCo: Layerwise-adaptive Gradient Compression for Efficient Data-parallel Deep Learning",
// MLSys 2024), and DQ-SGD for each step (Yan, Huang, Lan, Song, "DQ-SGD: Dynamic Quantization in SGD for
// Communication-Efficient Distributed Learning", 2021); here the bits depend only on the current segment, without a
// table of past errors. ("Adaptive Gradient Quantization for Data-Parallel SGD", Faghri et al., NeurIPS 2020, is
// different: it moves the levels and keeps their number.)
class Adaptive final : public Quantise, public WholeUnits {
 public:
  using Options = AdaptiveOptions;
  explicit Adaptive(const AdaptiveOptions& options)
      : options_(options), blocks_{static_cast<std::size_t>(options.bucket)} {}

  std::size_t side_bytes(std::size_t values) const override {
    return values == 0 ? 0 : sizeof(std::uint32_t) + blocks_.side_bytes(values);
  }
  std::size_t max_packed_bytes(std::size_t values) const override {
    return kernels::packed_bytes(values, static_cast<unsigned>(options_.bits) + 1);
  }
  std::size_t packed_size(std::span<const std::byte> side, std::size_t values) const override;
  void list_runs(std::span<const std::byte> side, std::size_t values, std::vector<SymbolRun>& runs) const override {
    runs.push_back({.width = levels(side).width(), .count = values});
  }
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void check(const Quantised& in, std::size_t values) const override;
  void add_decoded(const Quantised& in, float scale, std::span<float> out) const override;
  Contract contract(std::size_t largest) const override;

 private:
  LevelBlocks levels(std::span<const std::byte> side) const;  // from the side information of a unit
  std::uint32_t bits_for(double norms, double squares) const;

  AdaptiveOptions options_;
  NormBlocks blocks_;
};

}  // namespace sotto
