#include "sotto/optim/averaged.h"

namespace sotto {

double Averaging::share(std::uint64_t step) const {
  if (decay > 0) return step == 0 ? 1 : 1 - decay;
  const auto t = static_cast<double>(step);
  return 6 * (t + tau) * (t + tau) / ((1 + t) * (6 * tau * tau + t + 6 * tau * t + 2 * t * t));
}

std::string Averaging::text() const {
  return decay > 0 ? "exponential, decay " + format_double(decay) : format_double(tau);
}

Averaged::Averaged(std::unique_ptr<Optimiser> inner, const Averaging& averaging, std::size_t parameters)
    : Wrapped(std::move(inner)), averaging_(averaging), mean_(parameters) {}

void Averaged::begin_step(std::uint64_t step) {
  Wrapped::begin_step(step);
  share_ = static_cast<float>(averaging_.share(step));
}

void Averaged::apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) {
  require_stretch(parameters, mean, begin, mean_.size());
  Wrapped::apply(parameters, mean, begin, lr);
  const float share = share_;
  float* average = mean_.data() + begin;
  for (std::size_t i = 0; i < parameters.size(); ++i) average[i] += share * (parameters[i] - average[i]);
}

void Averaged::visit_state(StateVisitor& visitor) {
  Wrapped::visit_state(visitor);
  visit_vector(visitor, "iterates", mean_);
}

}  // namespace sotto
