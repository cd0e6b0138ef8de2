#include "sotto/codec/quantise/fixed_levels.h"

#include "sotto/kernels/level_table.h"

namespace sotto {
namespace {

// The contract of rounding to multiples of (a block's largest magnitude / top), at random or to the nearest.
Contract linear_contract(std::size_t largest, std::size_t block, unsigned top, bool stochastic) {
  const double n = static_cast<double>(std::max<std::size_t>(std::min(largest, block), 1));
  // Each of n values has an error of at most half a step; one value is `top` steps large.
  const double half_steps = n / (4.0 * top * top);
  Contract contract{.input = Contract::Input::delta, .grain = Contract::Grain::block, .block = block};
  if (stochastic) {
    contract.kind = Contract::Kind::unbiased;
    contract.chance = Contract::Chance::own;
    contract.omega = std::min(half_steps, std::sqrt(n) / top);
    contract.delta = 0;
  } else {
    // No error exceeds the value itself, and the largest value of the block is exact.
    contract.kind = Contract::Kind::contraction;
    contract.delta = std::max(1 - half_steps, 1 / n);
  }
  return contract;
}

}  // namespace

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

bool Int4::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  return levels_.encode(values, largest_magnitudes, side, packed);
}

void Int4::add_decoded(const Quantised& in, float scale, std::span<float> out) const {
  levels_.add_decoded(in, scale, out);
}

Contract Int4::contract(std::size_t largest) const {
  return linear_contract(largest, levels_.blocks.block, levels_.top(), levels_.stochastic);
}

bool UInt8::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  return blocks_.for_chunks(values.data, side, kernels::interval_blocks, [&](std::size_t begin, std::size_t end) {
    const std::size_t count = end - begin;
    const auto part = values.data.subspan(begin, count);
    const auto ends = blocks_.norms(side, begin);
    if (options_.stochastic) {
      kernels::to_uint8_stochastic(part, ends, values.draws.part(begin, count), packed.subspan(begin, count));
    } else {
      kernels::to_uint8(part, ends, packed.subspan(begin, count));
    }
  });
}

void UInt8::check(const Quantised& in, std::size_t) const {
  const auto end_of = [&](std::size_t i) {
    const auto end = kernels::load<float>(in.side.data(), i);
    if (!std::isfinite(end) || (end == 0 && std::signbit(end))) {
      throw WireError("uint8: an end of a block's values is -0 or not finite");
    }
    return end;
  };
  for (std::size_t b = 0; b * blocks_.bytes() < in.side.size(); ++b) {
    const float low = end_of(2 * b), high = end_of(2 * b + 1);
    if (low > high) throw WireError("uint8: the least value of a block is above the largest");
    if (low < high) continue;
    const auto rest = in.packed.subspan(b * blocks_.block);
    if (std::ranges::any_of(rest.first(std::min(blocks_.block, rest.size())),
                            [](std::byte level) { return level != std::byte{0}; })) {
      throw WireError("uint8: a level other than 0 in a block of equal values");
    }
  }
}

void UInt8::add_decoded(const Quantised& in, float scale, std::span<float> out) const {
  kernels::add_uint8(in.packed, blocks_.norms(in.side, 0), scale, out);
}

Contract UInt8::contract(std::size_t largest) const {
  const double n = static_cast<double>(std::max<std::size_t>(std::min(largest, blocks_.block), 1));
  // Each of n values has an error of at most half a step. Two values are the ends, 255 steps apart, so the sum of their
  // squares is at least 255^2 / 2. A single value is its own end.
  const double half_steps = n > 1 ? n / (2.0 * 255 * 255) : 0;
  Contract contract{.input = Contract::Input::delta, .grain = Contract::Grain::block, .block = blocks_.block};
  contract.kind = options_.stochastic ? Contract::Kind::unbiased : Contract::Kind::contraction;
  contract.omega = options_.stochastic ? half_steps : 0;
  contract.delta = options_.stochastic ? 0 : 1 - half_steps;
  if (options_.stochastic) contract.chance = Contract::Chance::own;
  return contract;
}

bool Nf4::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  return blocks_.for_chunks(values.data, side, largest_magnitudes, [&](std::size_t begin, std::size_t end) {
    PackedSymbols{4}.pack(begin, end, packed, [&](std::size_t from, std::span<std::uint16_t> symbols) {
      kernels::nearest_nf4(values.data.subspan(from, symbols.size()), blocks_.norms(side, from), symbols);
    });
  });
}

void Nf4::add_decoded(const Quantised& in, float scale, std::span<float> out) const {
  PackedSymbols{4}.unpack(0, out.size(), in.packed, [&](std::size_t from, std::span<const std::uint16_t> symbols) {
    kernels::add_from_table(symbols, blocks_.norms(in.side, from), kernels::nf4_levels, scale,
                            out.subspan(from, symbols.size()));
  });
}

Contract Nf4::contract(std::size_t largest) const {
  // The largest value of a block is exact. A value between two levels has the largest error for its size if it is
  // halfway between them. In the worst block, all other values are therefore at the same middle.
  const double others = static_cast<double>(std::max<std::size_t>(std::min(largest, blocks_.block), 1) - 1);
  double lost = 0;
  for (std::size_t i = 0; i < kernels::nf4_middles.size(); ++i) {
    const double error = (kernels::nf4_levels[i + 1] - kernels::nf4_levels[i]) / 2, middle = kernels::nf4_middles[i];
    lost = std::max(lost, others * error * error / (1 + others * middle * middle));
  }
  constexpr double rounding = 1 + 1e-5;  // of y, and of what is decoded
  return {.kind = Contract::Kind::contraction,
          .delta = 1 - lost * rounding,
          .input = Contract::Input::delta,
          .grain = Contract::Grain::block,
          .block = blocks_.block};
}

}  // namespace sotto
