#pragma once

#include <memory>

#include "sotto/optim/clip.h"
#include "sotto/optim/wrapped.h"

namespace sotto {

// Wraps an optimiser: clips the mean of the exchange before the optimiser gets it. If the whole gradient must be
// clipped at once, apply() must get all of it: std::logic_error otherwise.
class Clipped final : public Wrapped {
 public:
  Clipped(std::unique_ptr<Optimiser> inner, ClipSpec clip, std::size_t parameters);
  void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) override;

 private:
  ClipSpec clip_;
  std::size_t size_;
};

}  // namespace sotto
