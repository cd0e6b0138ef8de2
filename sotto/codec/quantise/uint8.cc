#include "sotto/codec/quantise/uint8.h"

#include <algorithm>
#include <cmath>

#include "sotto/core/error.h"
#include "sotto/kernels/load.h"
#include "sotto/kernels/reduce.h"
#include "sotto/kernels/uint8.h"

namespace sotto {

bool UInt8::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  return blocks_.for_chunks(values.data, side, kernels::interval_blocks, [&](std::size_t begin, std::size_t end) {
    const std::size_t count = end - begin;
    const auto part = values.data.subspan(begin, count);
    const auto ends = blocks_.norms(side, begin);
    if (options_.stochastic) {
      kernels::to_uint8_stochastic(part, ends, values.draws.part(begin, count), packed.subspan(begin, count));
    } else {
      kernels::to_uint8(part, ends, packed.subspan(begin, count));
    }
  });
}

void UInt8::check(const Quantised& in, std::size_t) const {
  const auto end_of = [&](std::size_t i) {
    const auto end = kernels::load<float>(in.side.data(), i);
    if (!std::isfinite(end) || (end == 0 && std::signbit(end))) {
      throw WireError("uint8: an end of a block's values is -0 or not finite");
    }
    return end;
  };
  for (std::size_t b = 0; b * blocks_.bytes() < in.side.size(); ++b) {
    const float low = end_of(2 * b), high = end_of(2 * b + 1);
    if (low > high) throw WireError("uint8: the least value of a block is above the largest");
    if (low < high) continue;
    const auto rest = in.packed.subspan(b * blocks_.block);
    if (std::ranges::any_of(rest.first(std::min(blocks_.block, rest.size())),
                            [](std::byte level) { return level != std::byte{0}; })) {
      throw WireError("uint8: a level other than 0 in a block of equal values");
    }
  }
}

void UInt8::add_decoded(const Quantised& in, float scale, std::span<float> out) const {
  kernels::add_uint8(in.packed, blocks_.norms(in.side, 0), scale, out);
}

Contract UInt8::contract(std::size_t largest) const {
  const double n = static_cast<double>(std::max<std::size_t>(std::min(largest, blocks_.block), 1));
  // Each of n values has an error of at most half a step. Two values are the ends, 255 steps apart, so the sum of their
  // squares is at least 255^2 / 2. A single value is its own end.
  const double half_steps = n > 1 ? n / (2.0 * 255 * 255) : 0;
  Contract contract{.input = Contract::Input::delta, .grain = Contract::Grain::block, .block = blocks_.block};
  contract.kind = options_.stochastic ? Contract::Kind::unbiased : Contract::Kind::contraction;
  contract.omega = options_.stochastic ? half_steps : 0;
  contract.delta = options_.stochastic ? 0 : 1 - half_steps;
  if (options_.stochastic) contract.chance = Contract::Chance::own;
  return contract;
}

}  // namespace sotto
