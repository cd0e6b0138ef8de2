#include "sotto/codec/quantise/nf4.h"

#include <algorithm>

#include "sotto/kernels/level_table.h"
#include "sotto/kernels/nf4.h"

namespace sotto {

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
  // The largest value of a block is exact. Each of the others that lies between two levels has the largest error for
  // its size halfway between them, so the worst block has all others at one and the same middle.
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
