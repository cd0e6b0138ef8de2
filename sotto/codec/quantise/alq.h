#pragma once

#include "sotto/codec/quantise/fitted_levels.h"

namespace sotto {

struct AlqOptions : FittedLevelsOptions {
  std::int64_t rounds = 30;
  void visit(OptionVisitor& v) {
    FittedLevelsOptions::visit(v);
    v.option("rounds", rounds, "times that each level is moved to where it is best between its neighbours",
             Bounds{1, 1000});
  }
};

// ALQ (Faghri et al., "Adaptive Gradient Quantization for Data-Parallel SGD", NeurIPS 2020): coordinate descent on the
// variance, from levels that are equally far apart. In the paper ranks fit truncated normal distributions to their
// coordinates, and move the levels every few thousand steps; here the levels of each message are fitted to a sample of
// its values, whose distribution is known as it is. Buckets have their largest magnitude as norm.
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

}  // namespace sotto
