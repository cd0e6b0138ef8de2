#include "sotto/optim/plateau.h"

#include <algorithm>
#include <bit>

namespace sotto {
namespace {

void visit_double(StateVisitor& visitor, std::string_view name, double& value) {
  auto bits = std::bit_cast<std::uint64_t>(value);
  visitor.visit(name, bits);
  value = std::bit_cast<double>(bits);
}

}  // namespace

bool Plateau::improves(double value, bool rises) const {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (any_ == 0) return rises ? value > -infinite : value < infinite;
  const bool relative = options_.threshold_mode == "rel";
  const double margin = options_.threshold;
  if (rises) return value > (relative ? best_ * (1 + margin) : best_ + margin);
  return value < (relative ? best_ * (1 - margin) : best_ - margin);
}

bool Plateau::evaluated(double value, bool rises) {
  if (improves(value, rises)) {
    best_ = value;
    any_ = 1;
    bad_ = 0;
  } else {
    ++bad_;
  }
  if (waiting_ > 0) {
    --waiting_;
    bad_ = 0;
  }
  if (bad_ <= static_cast<std::uint64_t>(options_.patience)) return false;
  const double before = factor_;
  factor_ = std::max(factor_ * options_.factor, std::min(factor_, options_.floor));
  waiting_ = static_cast<std::uint64_t>(options_.cooldown);
  bad_ = 0;
  return factor_ < before;
}

void Plateau::visit_state(StateVisitor& visitor) {
  visit_double(visitor, "factor", factor_);
  visit_double(visitor, "best", best_);
  visitor.visit("any", any_);
  visitor.visit("bad", bad_);
  visitor.visit("waiting", waiting_);
}

}  // namespace sotto
