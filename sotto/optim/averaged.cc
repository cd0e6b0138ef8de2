#include "sotto/optim/averaged.h"

#include <algorithm>

#include "sotto/optim/stretch.h"

namespace sotto {

Averaged::Averaged(std::unique_ptr<Optimiser> inner, double tau, std::size_t parameters)
    : inner_(std::move(inner)), tau_(tau), mean_(parameters) {}

void Averaged::begin_step(std::uint64_t step) {
  inner_->begin_step(step);
  const auto t = static_cast<double>(step);
  rho_ = 6 * (t + tau_) * (t + tau_) / ((1 + t) * (6 * tau_ * tau_ + t + 6 * tau_ * t + 2 * t * t));
}

void Averaged::apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) {
  require_stretch(parameters, mean, begin, mean_.size());
  inner_->apply(parameters, mean, begin, lr);
  const auto rho = static_cast<float>(rho_);
  float* average = mean_.data() + begin;
  for (std::size_t i = 0; i < parameters.size(); ++i) average[i] += rho * (parameters[i] - average[i]);
}

void Averaged::visit_state(StateVisitor& visitor) {
  inner_->visit_state(visitor);
  visit_vector(visitor, "iterates", mean_);
}

}  // namespace sotto
