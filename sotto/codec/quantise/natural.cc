#include "sotto/codec/quantise/natural.h"

#include <algorithm>

#include "sotto/kernels/power.h"
#include "sotto/kernels/reduce.h"

namespace sotto {
namespace {

// The largest power of two that is at most the magnitude with the bits `largest`; at least 2^-126.
std::uint32_t unit_bits_for(std::uint32_t largest) { return std::max(largest >> 23, 1U) << 23; }

}  // namespace

bool Natural::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  for (std::size_t begin = 0; begin < values.data.size(); begin += block) {
    const std::size_t count = std::min(block, values.data.size() - begin);
    const auto part = values.data.subspan(begin, count);
    const std::uint32_t largest = kernels::max_abs_bits(part);
    if (largest >= kernels::infinity_bits) return false;
    kernels::store(side.data(), begin / block, unit_bits_for(largest));
    kernels::to_powers(part, {side.subspan(begin / block * sizeof(float)), block}, values.draws.part(begin, count),
                       packed.subspan(begin, count));
  }
  return true;
}

void Natural::check(const Quantised& in, std::size_t) const {
  check_units(in.side, "natural");
  for (std::size_t b = 0; b < in.side.size() / sizeof(float); ++b) {
    if (kernels::load<std::uint32_t>(in.side.data(), b) < unit_bits_for(0)) {
      throw WireError("natural: the unit of a block is below 2^-126");
    }
  }
}

void Natural::add_decoded(const Quantised& in, float scale, std::span<float> out) const {
  kernels::add_powers(in.packed, {in.side, block}, scale, out);
}

Contract Natural::contract(std::size_t) const {
  // Between p and 2p the variance (2p - v)(v - p) is at most v^2 / 8, at v = 4p/3. Values below 2^-125 units have a
  // variance of at most 2^-252 units^2, which is negligible against the square of the block's largest value.
  return {.kind = Contract::Kind::unbiased,
          .omega = 0.125,
          .delta = 0,
          .input = Contract::Input::delta,
          .grain = Contract::Grain::block,
          .block = block,
          .chance = Contract::Chance::own};
}

}  // namespace sotto
