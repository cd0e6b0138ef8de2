#pragma once

#include <cstdint>

#include "sotto/codec/quantise/fitted_levels.h"

namespace sotto {

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
  Scratch<double> variances_;       // two rows: the least variance up to each candidate, with n levels and with n - 1
  Scratch<std::uint16_t> choices_;  // a row for each number of levels: the level before each candidate
};

// ZipML's optimal levels (Zhang et al., "ZipML: Training Linear Models with End-to-End Low Precision, and a Little Bit
// of Deep Learning", ICML 2017), found for a sample of each segment. The paper's dynamic programme tries all pairs of
// candidates; since the level before a candidate never moves back when the candidate moves on, halving the stretches
// gives the same levels in less time (as in Ben Basat et al., "Optimal and Near-Optimal Adaptive Vector Quantization",
// 2024).
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
