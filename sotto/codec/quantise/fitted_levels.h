#pragma once

#include <cstdint>

#include "sotto/codec/quantise/levels.h"
#include "sotto/codec/quantise/samples.h"
#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

namespace sotto {

struct FittedLevelsOptions {
  std::int64_t bits = 3;
  std::int64_t bucket = 512;
  std::int64_t sample = 4096;
  void visit(OptionVisitor& v) {
    v.option("bits", bits, "bits of magnitude; one more of sign goes with every value", Bounds{1, 6});
    v.option("bucket", bucket, "values that share a norm, their largest magnitude", Bounds{1, 1U << 30});
    v.option("sample", sample, "values of a segment, at most, that its levels are fitted to", Bounds{1, 1U << 20});
  }
};

// What alq and zipml share: stochastic rounding without bias to 2^bits levels and their negatives, as in qsgd, but the
// levels are fitted to each segment, and are part of its side information. The first level is 0 and the last is the
// norm of the value's bucket; the other levels are shares of this norm. Levels are fitted to a sample of the segment.
// Each value of the sample has the square of its norm as weight, so that the levels minimise E |C(x)-x|^2.
class FittedLevels : public Quantise, public WholeUnits {
 public:
  std::size_t side_bytes(std::size_t values) const override {
    return values == 0 ? 0 : head() + blocks_.side_bytes(values);
  }
  std::size_t max_packed_bytes(std::size_t values) const override { return kernels::packed_bytes(values, width()); }
  std::size_t packed_size(std::span<const std::byte>, std::size_t values) const override {
    return max_packed_bytes(values);
  }
  void list_runs(std::span<const std::byte>, std::size_t values, std::vector<SymbolRun>& runs) const override {
    runs.push_back({.width = width(), .count = values});
  }
  void reserve(std::optional<std::uint64_t> place, std::size_t values) override;
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void check(const Quantised& in, std::size_t values) const override;
  void add_decoded(const Quantised& in, float scale, std::span<float> out) const override;
  Contract contract(std::size_t largest) const override;

 protected:
  FittedLevels(const FittedLevelsOptions& options, const char* name)
      : name_(name),
        bits_(static_cast<unsigned>(options.bits)),
        sample_size_(static_cast<std::size_t>(options.sample)),
        blocks_{static_cast<std::size_t>(options.bucket)} {}
  std::size_t count() const { return std::size_t{1} << bits_; }  // of the levels, 0 and 1 among them

 private:
  // Fills in ascending levels between the first, 0, and the last, 1.
  virtual void fit(const LevelSample& sample, std::span<float> levels) = 0;

  unsigned width() const { return bits_ + 1; }
  std::size_t head() const { return (count() - 2) * sizeof(float); }  // bytes of the levels; the norms follow

  const char* name_;  // of the stage, for errors
  unsigned bits_;
  std::size_t sample_size_;
  NormBlocks blocks_;
  LevelSample sample_;
};

struct AlqOptions : FittedLevelsOptions {
  std::int64_t rounds = 30;
  void visit(OptionVisitor& v) {
    FittedLevelsOptions::visit(v);
    v.option("rounds", rounds, "times that each level is moved to where it is best between its neighbours",
             Bounds{1, 1000});
  }
};

// ALQ (Faghri et al., "Adaptive Gradient Quantization for Data-Parallel SGD", NeurIPS 2020): coordinate descent on the
// variance, from levels that are equally far apart. In the paper, ranks fit truncated normal distributions to their
// coordinates, and move the levels every few thousand steps. Here the levels of each message are fitted to a sample of
// its values themselves. Buckets have their largest magnitude as norm.
class Alq final : public FittedLevels {
 public:
  using Options = AlqOptions;
  explicit Alq(const AlqOptions& options) : FittedLevels(options, "alq"), rounds_(options.rounds) {}

 private:
  void fit(const LevelSample& sample, std::span<float> levels) override;

  std::int64_t rounds_;
};

// Moves each level, one after the other, to where the variance of the sample is least between its neighbours. Returns
// whether any has moved. The variance never rises, but for the rounding of sums. REQUIRES ascending levels from 0 to 1.
bool descend(const LevelSample& sample, std::span<float> levels);

struct ZipMlOptions : FittedLevelsOptions {
  std::int64_t candidates = 512;
  void visit(OptionVisitor& v) {
    FittedLevelsOptions::visit(v);
    v.option("candidates", candidates, "values of the sample, at most, that levels are chosen from",
             Bounds{1, 1U << 15});
  }
};

// Chooses the levels of least variance by dynamic programming. The levels of some optimum are among the values
// themselves, so with enough candidates no other levels have less variance.
class OptimalLevels {
 public:
  void reserve(std::size_t candidates, std::size_t levels);
  // Fills in the levels between the first, 0, and the last, 1.
  void find(const LevelSample& sample, std::size_t candidates, std::span<float> levels);

 private:
  // A candidate for a level, and the number of shares that are not above it.
  struct Candidate {
    float level = 0;
    std::size_t shares = 0;
  };
  std::size_t list(const LevelSample& sample, std::size_t most);
  void fill(const LevelSample& sample, Range wanted, Range before, std::span<const double> less,
            std::span<double> least, std::span<std::uint16_t> choices) const;

  Scratch<Candidate> candidates_;
  Scratch<double> variances_;  // two rows: the least variance up to each candidate, with n levels and with n - 1
  // A row for each number of levels: which candidate is the level before each candidate.
  Scratch<std::uint16_t> choices_;
};

// ZipML's optimal levels (Zhang et al., "ZipML: Training Linear Models with End-to-End Low Precision, and a Little Bit
// of Deep Learning", ICML 2017), found for a sample of each segment. The paper's dynamic programme tries all pairs of
// candidates. For a larger candidate, the best level before it is never smaller, so halving the stretches gives the
// same levels in less time (as in Ben Basat et al., "Optimal and Near-Optimal Adaptive Vector Quantization", 2024).
class ZipMl final : public FittedLevels {
 public:
  using Options = ZipMlOptions;
  explicit ZipMl(const ZipMlOptions& options)
      : FittedLevels(options, "zipml"), candidates_(static_cast<std::size_t>(options.candidates)) {}
  void reserve(std::optional<std::uint64_t> place, std::size_t values) override;

 private:
  void fit(const LevelSample& sample, std::span<float> levels) override;

  std::size_t candidates_;
  OptimalLevels optimal_;
};

}  // namespace sotto
