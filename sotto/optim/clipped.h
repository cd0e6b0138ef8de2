#pragma once

#include <memory>

#include "sotto/optim/clip.h"
#include "sotto/optim/wrapped.h"

namespace sotto {

// Wraps an optimiser: clips the mean of the exchange before the optimiser gets it. If the whole gradient must be
// clipped at once, apply() must get all of it: std::logic_error otherwise. With asynchronous servers, where each
// worker's gradient makes an update, workers clip what they offer: it may become a momentum before it is exchanged.
class Clipped final : public Wrapped {
 public:
  Clipped(std::unique_ptr<Optimiser> inner, ClipSpec clip, std::size_t parameters);
  void take_shares(double share) override;
  std::span<float> offer(std::span<float> gradient, std::size_t begin) override;
  void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) override;

 private:
  ClipSpec clip_;
  std::size_t size_;
  bool offers_clipped_ = false;
};

}  // namespace sotto
