#include "sotto/codec/contract.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sotto {
namespace {

Contract none() { return {.kind = Contract::Kind::none, .omega = INFINITY, .delta = 0}; }

Contract error_of(const Contract& a, const Contract& b) {
  using Kind = Contract::Kind;
  if (a.kind == Kind::exact) return b;
  if (b.kind == Kind::exact) return a;
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
    case Contract::Kind::unbiased: return fmt::format("unbiased, E|C(x)-x|^2 <= {:.4g} |x|^2", c.omega);
    case Contract::Kind::contraction: return fmt::format("contraction, E|C(x)-x|^2 <= (1 - {:.4g}) |x|^2", c.delta);
    case Contract::Kind::none: break;
  }
  return "no bound on the error: wants a memory in front of it";
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
  both.input = std::min(first.input, then.input);
  both.grain = first.grain;
  both.block = first.block;
  // Blocks and rows behind a stage are of what that stage lets through, so only segments keep their borders.
  if (then.grain != Contract::Grain::element) {
    both.grain = Contract::Grain::segment;
    both.block = 1;
  }
  return both;
}

std::string describe(const Contract& contract) {
  return fmt::format("{}; {}; {}{}", error_text(contract), input_text(contract), grain_text(contract),
                     contract.linear ? "; linear" : "");
}

}  // namespace sotto
