#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "sotto/optim/optimiser.h"
#include "sotto/optim/stretch.h"

namespace sotto::python {

// What the optimiser of somebody else's loop did, as an optimiser: `mean` is where it took the parameters that were
// shown to it, and those are what an algorithm has a step taken of.
class Followed final : public Optimiser {
 public:
  explicit Followed(std::size_t parameters) : size_(parameters) {}

  void apply(std::span<float> parameters, std::span<const float> mean, std::size_t begin, double /*lr*/) override {
    require_stretch(parameters, mean, begin, size_);
    std::ranges::copy(mean, parameters.begin());
  }
  void visit_state(StateVisitor& /*visitor*/) override {}

 private:
  std::size_t size_;
};

}  // namespace sotto::python
