#include "sotto/codec/quantise/int4.h"

namespace sotto {

bool Int4::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  return levels_.encode(values, largest_magnitudes, side, packed);
}

void Int4::add_decoded(const Quantised& in, float scale, std::span<float> out) const {
  levels_.add_decoded(in, scale, out);
}

Contract Int4::contract(std::size_t largest) const {
  return linear_contract(largest, levels_.blocks.block, levels_.top(), levels_.stochastic);
}

}  // namespace sotto
