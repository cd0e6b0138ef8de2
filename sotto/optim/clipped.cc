#include "sotto/optim/clipped.h"

#include <stdexcept>
#include <utility>

namespace sotto {

Clipped::Clipped(std::unique_ptr<Optimiser> inner, ClipSpec clip, std::size_t parameters)
    : Wrapped(std::move(inner)), clip_(std::move(clip)), size_(parameters) {}

void Clipped::take_shares(double share) {
  offers_clipped_ = share < 1;
  Wrapped::take_shares(share);
}

std::span<float> Clipped::offer(std::span<float> gradient, std::size_t begin) {
  if (offers_clipped_) clip(clip_, gradient);
  return Wrapped::offer(gradient, begin);
}

void Clipped::apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) {
  if (clip_.entry->whole && mean.size() != size_) {
    throw std::logic_error("Clipped: the norm of a stretch is not the norm of the gradient");
  }
  if (!offers_clipped_) clip(clip_, mean);
  Wrapped::apply(parameters, mean, begin, lr);
}

}  // namespace sotto
