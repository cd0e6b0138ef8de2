#include "sotto/codec/quantise/bf16.h"

#include "sotto/core/error.h"
#include "sotto/kernels/cast.h"

namespace sotto {

void BF16::check(std::span<const std::byte>, std::span<const std::byte> packed, std::size_t) const {
  if (!kernels::all_finite_bf16(packed)) throw WireError("bf16: a value that is not finite");
}

Contract BF16::contract(std::size_t) const {
  // Rounding changes a value by at most 2^-9 of its magnitude, saturation by at most 2^-8. (Below 2^-126: at most
  // 2^-134.)
  return {.kind = Contract::Kind::contraction, .delta = 1 - 0x1p-16, .linear = true, .input = Contract::Input::model};
}

void BF16::convert(std::span<const float> values, float scale, std::span<std::byte> out) const {
  kernels::to_bf16(values, scale, out);
}

void BF16::add(std::span<const std::byte> in, float scale, std::span<float> out) const {
  kernels::add_bf16(in, scale, out);
}

}  // namespace sotto
