#include "sotto/codec/quantise/nf4.h"

#include <algorithm>
#include <array>

namespace sotto {
namespace {

constexpr std::array<float, 16> levels{
    -1.0F,         -0.696192801F, -0.525073051F, -0.394917488F, -0.284441382F, -0.184773430F, -0.0910500363F, 0.0F,
    0.0795802996F, 0.160930201F,  0.246112302F,  0.337915242F,  0.440709829F,  0.562617004F,  0.722956836F,   1.0F};

// Halfway between level i and level i + 1.
constexpr std::array<float, 15> middles = [] {
  std::array<float, 15> between{};
  for (std::size_t i = 0; i < between.size(); ++i) between[i] = (levels[i] + levels[i + 1]) / 2;
  return between;
}();

// Writes the numbers of the levels nearest to values / norm. A norm at either end of the range is scaled first, so that
// its reciprocal is a normal number.
void nearest(std::span<const float> values, float norm, std::span<std::uint16_t> symbols) {
  const float unit = norm < 0x1p-64F ? 0x1p64F : norm > 0x1p64F ? 0x1p-64F : 1.0F;
  const float factor = norm == 0 ? 0.0F : 1 / (norm * unit);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float y = values[i] * unit * factor;
    unsigned below = 0;
    for (const float middle : middles) below += y > middle ? 1 : 0;
    symbols[i] = static_cast<std::uint16_t>(below);
  }
}

}  // namespace

bool Nf4::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  std::array<std::uint16_t, NormBlocks::chunk> symbols;
  return blocks_.for_chunks(values.data, side, largest_magnitudes, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end;) {
      const std::size_t block = i / blocks_.block, stop = std::min(end, (block + 1) * blocks_.block);
      nearest(values.data.subspan(i, stop - i), kernels::load<float>(side.data(), block),
              std::span(symbols).subspan(i - begin, stop - i));
      i = stop;
    }
    const auto some = std::span(symbols).first(end - begin);
    kernels::pack_bits(some, 4, packed.subspan(begin / 2, kernels::packed_bytes(some.size(), 4)));
  });
}

void Nf4::add_decoded(std::span<const std::byte> side, std::span<const std::byte> packed, float scale,
                      std::span<float> out) const {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto pair = std::to_integer<unsigned>(packed[i / 2]);
    const float norm = kernels::load<float>(side.data(), i / blocks_.block);
    out[i] += scale * (norm * levels[i % 2 == 0 ? pair & 15U : pair >> 4]);
  }
}

Contract Nf4::contract(std::size_t largest) const {
  // The largest value of a block is exact. Each of the others that lies between two levels has the largest error for
  // its size halfway between them, so the worst block has all others at one and the same middle.
  const double others = static_cast<double>(std::max<std::size_t>(std::min(largest, blocks_.block), 1) - 1);
  double lost = 0;
  for (std::size_t i = 0; i < middles.size(); ++i) {
    const double error = (levels[i + 1] - levels[i]) / 2, middle = middles[i];
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
