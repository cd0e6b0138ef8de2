#include "sotto/codec/quantise/f16.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "sotto/codec/quantise/side.h"
#include "sotto/core/error.h"
#include "sotto/kernels/cast.h"
#include "sotto/kernels/reduce.h"

namespace sotto {
namespace {

constexpr float largest_half = 65504;
constexpr int largest_shift = 149;  // the unit 2^-149 is the smallest float

// The exponent k of the factor 2^k that scales values of this largest magnitude.
int shift_for(float largest) {
  if (largest == 0 || (largest >= 1 && largest <= largest_half)) return 0;
  return std::min(14 - std::ilogb(largest), largest_shift);
}

}  // namespace

std::size_t F16::side_bytes(std::size_t values) const { return block_count(values, block) * sizeof(float); }

bool F16::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  for (std::size_t b = 0; b * block < values.data.size(); ++b) {
    const auto part = values.data.subspan(b * block, std::min(block, values.data.size() - b * block));
    const std::uint32_t bits = kernels::max_abs_bits(part);
    if (bits >= kernels::infinity_bits) return false;
    const int shift = shift_for(std::bit_cast<float>(bits));
    kernels::store(side.data(), b, std::ldexp(1.0F, -shift));
    const int half = shift / 2;  // 2^149 does not fit a float, so there are two factors
    kernels::to_f16(part, std::ldexp(1.0F, half), std::ldexp(1.0F, shift - half),
                    packed.subspan(b * block * 2, part.size() * 2));
  }
  return true;
}

void F16::check(const Quantised& in, std::size_t) const {
  check_units(in.side, "f16");
  if (!kernels::all_finite_f16(in.packed)) throw WireError("f16: a value that is not finite");
}

void F16::add_decoded(const Quantised& in, float scale, std::span<float> out) const {
  for (std::size_t b = 0; b * block < out.size(); ++b) {
    const auto part = out.subspan(b * block, std::min(block, out.size() - b * block));
    kernels::add_f16(in.packed.subspan(b * block * 2, part.size() * 2), kernels::load<float>(in.side.data(), b), scale,
                     part);
  }
}

Contract F16::contract(std::size_t) const {
  // Rounding changes a value by at most 2^-11 of its magnitude, and a subnormal by at most 2^-25, which is negligible
  // against a largest magnitude of at least 1.
  return {.kind = Contract::Kind::contraction,
          .delta = 1 - 0x1p-20,
          .linear = true,
          .input = Contract::Input::model,
          .grain = Contract::Grain::block,
          .block = block};
}

bool F16::write(std::span<const float> values, float scale, std::span<std::byte> out) const {
  for (std::size_t begin = 0; begin < values.size(); begin += block) {
    const auto part = values.subspan(begin, std::min(block, values.size() - begin));
    // If |v| <= 65504 on every rank, so is the mean. v/W alone could fit even though v does not.
    if (!fits(kernels::max_abs_bits(part), std::max(std::abs(scale), 1.0F), largest_half)) return false;
    kernels::to_f16(part, scale, 1, out.subspan(begin * 2, part.size() * 2));
  }
  return true;
}

void F16::add(std::span<const std::byte> in, float scale, std::span<float> out) const {
  kernels::add_f16(in, 1, scale, out);
}

}  // namespace sotto
