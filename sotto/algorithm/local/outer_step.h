#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sotto/core/layout.h"
#include "sotto/core/state.h"
#include "sotto/optim/optimiser.h"

namespace sotto {

struct OuterOptions {
  double lr = 1;
  double momentum = 0;
  bool nesterov = false;
  bool in_rates = false;  // lr and velocity are in units of the ranks' own rate (SlowMo)
};

// What all ranks do alike with the mean of how far they went: a step of SGD from where they began, as if that mean were
// a gradient. Where they begin next is the same on all ranks, to the last bit.
class OuterStep {
 public:
  OuterStep(const OuterOptions& options, std::size_t parameters);

  // Where all ranks begin, before the first step; nothing from then on.
  void begin(std::span<const float> parameters);
  std::span<const float> start(const Range& range) const {
    return std::span(start_).subspan(range.begin, range.size());
  }
  // start = start - lr * direction(mean) for this stretch, whose mean may be overwritten. `rate` is the ranks' own.
  void take(const Range& range, std::span<float> mean, double rate);
  bool in_rates() const { return options_.in_rates; }
  void visit_state(StateVisitor& visitor);

 private:
  OuterOptions options_;
  std::vector<float> start_;
  std::uint64_t begun_ = 0;
  std::unique_ptr<Optimiser> sgd_;
};

}  // namespace sotto
