#include "sotto/codec/quantise/int8.h"

#include "sotto/core/error.h"
#include "sotto/kernels/int8.h"
#include "sotto/kernels/levels.h"

namespace sotto {

bool Int8::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  return blocks_.for_chunks(values.data, side, largest_magnitudes, [&](std::size_t begin, std::size_t end) {
    const std::size_t count = end - begin;
    const auto part = values.data.subspan(begin, count);
    const auto levels = packed.subspan(begin, count);
    const kernels::Norms norms = blocks_.norms(side, begin);
    if (options_.stochastic) {
      kernels::stochastic_levels(part, norms, kernels::int8_top, values.draws.part(begin, count), levels);
    } else {
      kernels::nearest_levels(part, norms, kernels::int8_top, levels);
    }
  });
}

void Int8::check(const Quantised& in, std::size_t) const {
  check_norms(in.side, "int8");
  if (!kernels::valid_int8(in.packed)) throw WireError("int8: a value of -128");
}

void Int8::add_decoded(const Quantised& in, float scale, std::span<float> out) const {
  kernels::add_int8(in.packed, blocks_.norms(in.side, 0), scale, out);
}

Contract Int8::contract(std::size_t largest) const {
  return linear_contract(largest, blocks_.block, 127, options_.stochastic);
}

}  // namespace sotto
