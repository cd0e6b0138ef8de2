#include "sotto/codec/quantise/short_floats.h"

#include "sotto/codec/quantise/levels.h"
#include "sotto/kernels/cast.h"

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

namespace {

// The largest power of two that is at most the magnitude with the bits `largest`; at least 2^-126.
std::uint32_t unit_bits_for(std::uint32_t largest) { return std::max(largest >> 23, 1U) << 23; }

}  // namespace

bool Natural::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  for (std::size_t begin = 0; begin < values.data.size(); begin += block) {
    const std::size_t count = std::min(block, values.data.size() - begin);
    const auto part = values.data.subspan(begin, count);
    const std::uint32_t largest = kernels::max_abs_bits(part);
    if (largest >= kernels::infinity_bits) return false;
    kernels::store(side.data(), begin / block, unit_bits_for(largest));
    kernels::to_powers(part, {side.subspan(begin / block * sizeof(float)), block}, values.draws.part(begin, count),
                       packed.subspan(begin, count));
  }
  return true;
}

void Natural::check(const Quantised& in, std::size_t) const {
  check_units(in.side, "natural");
  for (std::size_t b = 0; b < in.side.size() / sizeof(float); ++b) {
    if (kernels::load<std::uint32_t>(in.side.data(), b) < unit_bits_for(0)) {
      throw WireError("natural: the unit of a block is below 2^-126");
    }
  }
}

void Natural::add_decoded(const Quantised& in, float scale, std::span<float> out) const {
  kernels::add_powers(in.packed, {in.side, block}, scale, out);
}

Contract Natural::contract(std::size_t) const {
  // Between p and 2p the variance (2p - v)(v - p) is at most v^2 / 8, at v = 4p/3. Values below 2^-125 units have a
  // variance of at most 2^-252 units^2, which is negligible against the square of the block's largest value.
  return {.kind = Contract::Kind::unbiased,
          .omega = 0.125,
          .delta = 0,
          .input = Contract::Input::delta,
          .grain = Contract::Grain::block,
          .block = block,
          .chance = Contract::Chance::own};
}

}  // namespace sotto
