#include "sotto/codec/quantise/f32.h"

#include <algorithm>

#include "sotto/codec/quantise/side.h"
#include "sotto/core/error.h"
#include "sotto/kernels/cast.h"
#include "sotto/kernels/reduce.h"

namespace sotto {

bool F32::encode(const Values& values, std::span<std::byte>, std::span<std::byte> packed) {
  return write(values.data, 1, packed);
}

void F32::check(std::span<const std::byte>, std::span<const std::byte> packed) const {
  if (!kernels::all_finite_f32(packed)) throw WireError("f32: a value that is not finite");
}

void F32::add_decoded(std::span<const std::byte>, std::span<const std::byte> packed, float scale,
                      std::span<float> out) const {
  kernels::add_f32(packed, scale, out);
}

Contract F32::contract(std::size_t) const {
  return {.kind = Contract::Kind::exact, .linear = true, .input = Contract::Input::model};
}

bool F32::write(std::span<const float> values, float scale, std::span<std::byte> out) const {
  constexpr std::size_t block = 4096;  // looked through and copied while it is in the cache
  for (std::size_t begin = 0; begin < values.size(); begin += block) {
    const auto part = values.subspan(begin, std::min(block, values.size() - begin));
    if (!fits(kernels::max_abs_bits(part), scale, largest_float)) return false;
    kernels::to_f32(part, scale, out.subspan(begin * sizeof(float), part.size_bytes()));
  }
  return true;
}

void F32::add(std::span<const std::byte> in, float scale, std::span<float> out) const {
  kernels::add_f32(in, scale, out);
}

}  // namespace sotto
