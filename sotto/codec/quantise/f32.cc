#include "sotto/codec/quantise/f32.h"

#include "sotto/core/error.h"
#include "sotto/kernels/cast.h"

namespace sotto {

void F32::check(std::span<const std::byte>, std::span<const std::byte> packed, std::size_t) const {
  if (!kernels::all_finite_f32(packed)) throw WireError("f32: a value that is not finite");
}

Contract F32::contract(std::size_t) const {
  return {.kind = Contract::Kind::exact, .linear = true, .input = Contract::Input::model};
}

void F32::convert(std::span<const float> values, float scale, std::span<std::byte> out) const {
  kernels::to_f32(values, scale, out);
}

void F32::add(std::span<const std::byte> in, float scale, std::span<float> out) const {
  kernels::add_f32(in, scale, out);
}

}  // namespace sotto
