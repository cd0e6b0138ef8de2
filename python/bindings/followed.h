#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "sotto/optim/optimiser.h"
#include "sotto/optim/stretch.h"

namespace sotto::python {

// What the optimiser of somebody else's loop did, as an optimiser: `mean` is where the parameters that were shown to it
// came to. What is applied is how far they went; to the last bit where `parameters` are what was shown.
class Followed final : public Optimiser {
 public:
  explicit Followed(const std::vector<float>& shown) : shown_(shown) {}

  void apply(std::span<float> parameters, std::span<const float> mean, std::size_t begin, double /*lr*/) override {
    require_stretch(parameters, mean, begin, shown_.size());
    const float* shown = shown_.data() + begin;
    if (parameters.data() == shown) {
      std::ranges::copy(mean, parameters.begin());
      return;
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const float x = parameters[i];
      parameters[i] = x == shown[i] ? mean[i] : x + (mean[i] - shown[i]);
    }
  }
  void visit_state(StateVisitor& /*visitor*/) override {}

 private:
  const std::vector<float>& shown_;
};

}  // namespace sotto::python
