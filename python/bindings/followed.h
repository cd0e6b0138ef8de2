#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "sotto/optim/optimiser.h"
#include "sotto/optim/stretch.h"

namespace sotto::python {

// What the optimiser of somebody else's loop did, as an optimiser: `mean` is where it took the parameters that were
// shown to it, and those are what an algorithm has a step taken of. Where the parameters change beside the loop they go
// as far as it went from `shown`; null: nobody changes them.
class Followed final : public Optimiser {
 public:
  explicit Followed(std::size_t parameters, const std::vector<float>* shown = nullptr)
      : size_(parameters), shown_(shown) {}

  void apply(std::span<float> parameters, std::span<const float> mean, std::size_t begin, double /*lr*/) override {
    require_stretch(parameters, mean, begin, size_);
    if (shown_ == nullptr) {
      std::ranges::copy(mean, parameters.begin());
      return;
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] += mean[i] - (*shown_)[begin + i];
  }
  void visit_state(StateVisitor& /*visitor*/) override {}

 private:
  std::size_t size_;
  const std::vector<float>* shown_;
};

}  // namespace sotto::python
