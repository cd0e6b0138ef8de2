#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "sotto/optim/optimiser.h"

namespace sotto {

// Presents the step of a user's optimiser as an Optimiser. The algorithm shows its parameters to the user's loop, and
// `mean` of apply() holds them after the loop's step. If the algorithm's vector may change during the loop, `shown`
// holds the parameters that the loop began with, and the vector moves as far as the loop moved from there. If `shown`
// is null, the vector does not change, and becomes `mean`.
class Followed final : public Optimiser {
 public:
  explicit Followed(std::size_t parameters, const std::vector<float>* shown = nullptr)
      : size_(parameters), shown_(shown) {}

  void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double /*lr*/) override {
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

}  // namespace sotto
