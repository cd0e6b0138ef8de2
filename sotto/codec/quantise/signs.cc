#include "sotto/codec/quantise/signs.h"

#include <cmath>

#include "sotto/kernels/sign.h"

namespace sotto {

bool Signs::encode(const Values& values, std::span<std::byte> /*side*/, std::span<std::byte> packed) {
  return std::isfinite(kernels::pack_drawn_signs(values.data, values.draws, packed));
}

void Signs::add_decoded(const Quantised& in, float scale, std::span<float> out) const {
  kernels::add_signs(in.packed, 0, scale, out);
}

Contract Signs::contract(std::size_t /*largest*/) const {
  return {.kind = Contract::Kind::none, .omega = INFINITY, .delta = 0, .signs = true, .keeps_zeros = false};
}

}  // namespace sotto
