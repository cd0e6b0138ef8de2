#include "sotto/codec/quantise/bf16.h"

#include <algorithm>

#include "sotto/codec/quantise/side.h"
#include "sotto/core/error.h"
#include "sotto/kernels/cast.h"
#include "sotto/kernels/reduce.h"

namespace sotto {

bool BF16::encode(const Values& values, std::span<std::byte>, std::span<std::byte> packed) {
  return write(values.data, 1, packed);
}

void BF16::check(std::span<const std::byte>, std::span<const std::byte> packed) const {
  if (!kernels::all_finite_bf16(packed)) throw WireError("bf16: a value that is not finite");
}

void BF16::add_decoded(std::span<const std::byte>, std::span<const std::byte> packed, float scale,
                       std::span<float> out) const {
  kernels::add_bf16(packed, scale, out);
}

Contract BF16::contract(std::size_t) const {
  // Rounding changes a value by at most 2^-9 of it, saturation by at most 2^-8. (Below 2^-126, by at most 2^-134.)
  return {.kind = Contract::Kind::contraction, .delta = 1 - 0x1p-16, .linear = true, .input = Contract::Input::model};
}

bool BF16::write(std::span<const float> values, float scale, std::span<std::byte> out) const {
  constexpr std::size_t block = 4096;  // looked through and rounded while it is in the cache
  for (std::size_t begin = 0; begin < values.size(); begin += block) {
    const auto part = values.subspan(begin, std::min(block, values.size() - begin));
    if (!fits(kernels::max_abs_bits(part), scale, largest_float)) return false;
    kernels::to_bf16(part, scale, out.subspan(begin * 2, part.size() * 2));
  }
  return true;
}

void BF16::add(std::span<const std::byte> in, float scale, std::span<float> out) const {
  kernels::add_bf16(in, scale, out);
}

}  // namespace sotto
