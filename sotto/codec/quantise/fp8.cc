#include "sotto/codec/quantise/fp8.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "sotto/codec/quantise/levels.h"
#include "sotto/kernels/float8.h"

namespace sotto {
namespace {

// The smallest power of two u with most <= 1.75 * 2^top * u, but at least 2^-149, the smallest float; 1 if `most` is 0.
float unit_for(float most, int top) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(most);
  const bool above = (bits & 0x7FFFFFU) > 0x600000U;  // 1.75
  const int exponent = static_cast<int>(bits >> 23) - top + (above ? 1 : 0);
  if (exponent > 0 && bits >= 1U << 23) return std::bit_cast<float>(static_cast<std::uint32_t>(exponent) << 23);
  if (most == 0) return 1;
  float unit = 0x1p-149F;
  while (std::ldexp(1.75F, top) * unit < most) unit *= 2;  // only for denormals, which are rare
  return unit;
}

}  // namespace

bool Fp8::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  const NormBlocks blocks{block_};
  const int top = e4m3_ ? 8 : 15;  // the largest numbers are 1.75 * 2^8 and 1.75 * 2^15
  const auto write_units = [top](std::span<const float> some, std::size_t block, std::span<std::byte> units) {
    if (!largest_magnitudes(some, block, units)) return false;
    for (std::size_t b = 0; b * block < some.size(); ++b) {
      kernels::store(units.data(), b, unit_for(kernels::load<float>(units.data(), b), top));
    }
    return true;
  };
  return blocks.for_chunks(values.data, side, write_units, [&](std::size_t begin, std::size_t end) {
    const auto part = values.data.subspan(begin, end - begin);
    const auto out = packed.subspan(begin, end - begin);
    (e4m3_ ? kernels::to_e4m3 : kernels::to_e5m2)(part, blocks.norms(side, begin), out);
  });
}

void Fp8::check(const Quantised& in, std::size_t) const {
  check_units(in.side, "fp8");
  if (!(e4m3_ ? kernels::all_numbers_e4m3 : kernels::all_numbers_e5m2)(in.packed)) {
    throw WireError("fp8: a value that is not finite");
  }
}

void Fp8::add_decoded(const Quantised& in, float scale, std::span<float> out) const {
  (e4m3_ ? kernels::add_e4m3 : kernels::add_e5m2)(in.packed, {in.side, block_}, scale, out);
}

Contract Fp8::contract(std::size_t largest) const {
  // Rounding changes a value by at most 2^-4 of its magnitude (e5m2: 2^-3), and one below 2^-6 units (2^-14) by at most
  // 2^-10 units (2^-17); the block's largest magnitude is more than 224 units (28672).
  const double n = static_cast<double>(std::max<std::size_t>(std::min(largest, block_), 1));
  return {.kind = Contract::Kind::contraction,
          .delta = e4m3_ ? 1 - 0x1p-8 - n * 0x1p-35 : 1 - 0x1p-6 - n * 0x1p-63,
          .input = Contract::Input::delta,
          .grain = Contract::Grain::block,
          .block = block_};
}

}  // namespace sotto
