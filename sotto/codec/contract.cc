#include "sotto/codec/contract.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sotto {
namespace {

Contract none() { return {.kind = Contract::Kind::none, .omega = INFINITY, .delta = 0}; }

Contract error_of(const Contract& a, const Contract& b) {
  using Kind = Contract::Kind;
  const auto harmless = [](const Contract& c) { return c.kind == Kind::exact || c.kind == Kind::rounding; };
  if (harmless(a) && harmless(b)) return {.kind = std::max(a.kind, b.kind)};
  if (harmless(a)) return b;
  if (harmless(b)) return a;
  if (a.kind == Kind::unbiased && b.kind == Kind::unbiased) {
    return {.kind = Kind::unbiased, .omega = (1 + a.omega) * (1 + b.omega) - 1, .delta = 0};
  }
  if (a.kind == Kind::contraction && b.kind == Kind::contraction) {
    return {.kind = Kind::contraction, .delta = a.delta * b.delta};
  }
  if (a.kind == Kind::contraction && b.kind == Kind::unbiased && b.omega < 1) {
    return {.kind = Kind::contraction, .delta = a.delta * (1 - b.omega)};
  }
  return none();
}

std::string error_text(const Contract& c) {
  switch (c.kind) {
    case Contract::Kind::exact: return "exact";
    case Contract::Kind::rounding: return "exact but for the rounding of floats";
    case Contract::Kind::unbiased:
      if (std::isinf(c.omega)) return "unbiased, without a bound on the variance";
      return fmt::format("unbiased, E|C(x)-x|^2 <= {:.4g} |x|^2", c.omega);
    case Contract::Kind::contraction:
      if (c.delta == 1) return "contraction that leaves nothing out";
      if (c.delta > 0.999) return fmt::format("contraction, E|C(x)-x|^2 <= {:.4g} |x|^2", 1 - c.delta);
      return fmt::format("contraction, E|C(x)-x|^2 <= (1 - {:.4g}) |x|^2", c.delta);
    case Contract::Kind::none:
      if (std::isfinite(c.omega)) return fmt::format("biased, E|C(x)-x|^2 <= {:.4g} |x|^2", c.omega);
      break;
  }
  if (c.signs) return "signs alone, without a magnitude";
  return "no bound on the error: needs a memory before it";
}

std::string input_text(const Contract& c) {
  switch (c.input) {
    case Contract::Input::gradient: return "for gradients";
    case Contract::Input::delta: return "for gradients and differences of models";
    case Contract::Input::model: break;
  }
  return "for gradients, differences and models";
}

std::string grain_text(const Contract& c) {
  switch (c.grain) {
    case Contract::Grain::element: return "parts cut anywhere";
    case Contract::Grain::block: return fmt::format("parts cut at blocks of {}", c.block);
    case Contract::Grain::row: return "parts cut at rows";
    case Contract::Grain::segment: break;
  }
  return "parts cut at segments";
}

}  // namespace

Contract compose(const Contract& first, const Contract& then) {
  Contract both = error_of(first, then);
  both.linear = first.linear && then.linear;
  both.signs = false;
  both.keeps_zeros = first.keeps_zeros && then.keeps_zeros;
  both.input = std::min(first.input, then.input);
  // The blocks of `then` divide the output of `first`, so they do not say where the input may be cut.
  both.grain = then.grain == Contract::Grain::segment ? then.grain : first.grain;
  both.block = first.block;
  both.chance = std::max(first.chance, then.chance);
  return both;
}

Contract of_products(const Contract& factors, std::size_t atoms) {
  using Kind = Contract::Kind;
  Contract products = factors;
  products.grain = Contract::Grain::element;
  if (factors.kind == Kind::unbiased) products.omega = (1 + factors.omega) * (1 + factors.omega) - 1;
  if (factors.kind == Kind::contraction) {
    // |u'v' - uv| <= (2e + e^2) |uv| with e = sqrt(1 - delta); the errors of k orthogonal atoms may all have one
    // direction.
    const double e = std::sqrt(1 - factors.delta);
    const double error = static_cast<double>(atoms) * (2 * e + e * e) * (2 * e + e * e);
    if (error >= 1) {
      products.kind = Kind::none;
      products.omega = INFINITY;
    }
    products.delta = std::max(1 - error, 0.0);
  }
  if (factors.kind == Kind::none) products.omega = INFINITY;
  return products;
}

double contraction_of(const Contract& contract) {
  switch (contract.kind) {
    case Contract::Kind::exact:
    case Contract::Kind::rounding: return 1;
    case Contract::Kind::unbiased: return std::max(0.0, 1 - contract.omega);
    case Contract::Kind::contraction: return contract.delta;
    case Contract::Kind::none: break;
  }
  return 0;
}

std::string describe(const Contract& contract) {
  return fmt::format("{}; {}; {}{}", error_text(contract), input_text(contract), grain_text(contract),
                     contract.linear ? "; linear" : "");
}

}  // namespace sotto
