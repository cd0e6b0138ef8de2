#include "sotto/codec/quantise/int8.h"

#include <algorithm>
#include <bit>

#include "sotto/codec/quantise/side.h"
#include "sotto/core/error.h"
#include "sotto/kernels/int8.h"
#include "sotto/kernels/reduce.h"

namespace sotto {

std::size_t Int8::side_bytes(std::size_t values) const { return block_count(values, block_) * sizeof(float); }

bool Int8::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  const std::size_t count = values.data.size();
  for (std::size_t b = 0; b < block_count(count, block_); ++b) {
    const std::size_t begin = b * block_;
    const auto part = values.data.subspan(begin, std::min(block_, count - begin));
    const std::uint32_t bits = kernels::max_abs_bits(part);
    if (bits >= kernels::infinity_bits) return false;
    const float norm = std::bit_cast<float>(bits);
    kernels::store(side.data(), b, norm);
    const auto out = packed.subspan(begin, part.size());
    if (options_.stochastic) {
      kernels::to_int8_stochastic(part, norm, values.draws.part(begin, part.size()), out);
    } else {
      kernels::to_int8(part, norm, out);
    }
  }
  return true;
}

void Int8::check(std::span<const std::byte> side, std::span<const std::byte> packed) const {
  check_norms(side, "int8");
  if (!kernels::valid_int8(packed)) throw WireError("int8: a value of -128");
}

void Int8::add_decoded(std::span<const std::byte> side, std::span<const std::byte> packed, float scale,
                       std::span<float> out) const {
  for (std::size_t b = 0; b < block_count(out.size(), block_); ++b) {
    const std::size_t begin = b * block_;
    const auto part = out.subspan(begin, std::min(block_, out.size() - begin));
    kernels::add_int8(packed.subspan(begin, part.size()), kernels::load<float>(side.data(), b), scale, part);
  }
}

Contract Int8::contract(std::size_t largest) const {
  return linear_contract(largest, block_, 127, options_.stochastic);
}

}  // namespace sotto
