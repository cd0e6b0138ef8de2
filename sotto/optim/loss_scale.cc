#include "sotto/optim/loss_scale.h"

#include <bit>
#include <cmath>

#include "sotto/kernels/reduce.h"
#include "sotto/kernels/vector.h"

namespace sotto {

LossScale::LossScale(const LossScaleOptions& options)
    : value_(static_cast<float>(options.scale)), every_(static_cast<std::uint64_t>(options.every)) {}

bool LossScale::unscale(std::span<float> gradient) const {
  const bool finite = std::isfinite(std::bit_cast<float>(kernels::max_abs_bits(gradient)));
  kernels::scale(static_cast<float>(1.0 / static_cast<double>(value_)), gradient);
  return finite;
}

void LossScale::end_step(bool is_void) {
  void_ = is_void;
  if (is_void) {
    ++skipped_;
    in_a_row_ = 0;
    value_ /= 2;
    return;
  }
  ++taken_;
  if (++in_a_row_ < every_) return;
  in_a_row_ = 0;
  if (std::isfinite(2 * value_)) value_ *= 2;
}

void LossScale::visit_state(StateVisitor& visitor) {
  std::uint64_t bits = std::bit_cast<std::uint32_t>(value_);
  visitor.visit("scale", bits);
  value_ = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  visitor.visit("in_a_row", in_a_row_);
  visitor.visit("taken", taken_);
  visitor.visit("skipped", skipped_);
}

std::span<float> Skipping::offer(std::span<float> gradient, std::size_t begin) {
  return scale_.is_void() ? gradient : Wrapped::offer(gradient, begin);
}

void Skipping::apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) {
  if (!scale_.is_void()) Wrapped::apply(parameters, mean, begin, lr);
}

void Skipping::visit_state(StateVisitor& visitor) {
  Wrapped::visit_state(visitor);
  ScopedState own(visitor, "loss_scale");
  scale_.visit_state(own);
}

}  // namespace sotto
