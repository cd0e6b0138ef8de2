#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "sotto/codec/quantise/side.h"
#include "sotto/codec/stage.h"
#include "sotto/kernels/bits.h"
#include "sotto/kernels/levels.h"

namespace sotto {

// What qsgd, int4 and terngrad share: every `block` values have a norm, a float of the side information, and go as
// levels of -top .. top times norm / top, in packed symbols of bits + 1 bits (kernels/levels.h).
struct LevelBlocks {
  std::size_t block = 0;  // 0: all values of a piece are one
  unsigned bits = 1;
  bool stochastic = true;

  unsigned top() const { return (1U << bits) - 1; }
  unsigned width() const { return bits + 1; }
  std::size_t side_bytes(std::size_t values) const { return block_count(values, block) * sizeof(float); }

  // norm(values of a block): the magnitude of the largest level, not finite when a value is not. Without chance no
  // value may be larger. False when a norm is not finite.
  template <class Norm>
  bool encode(const Values& values, Norm norm, std::span<std::byte> side, std::span<std::byte> packed) const;
  void add_decoded(std::span<const std::byte> side, std::span<const std::byte> packed, float scale,
                   std::span<float> out) const;

 private:
  static constexpr std::size_t chunk = 2048;  // symbols between rounding and packing: whole bytes at any width

  // run(begin, end, b) for every stretch of [begin, end) that lies in one block, b.
  template <class Run>
  void for_runs(std::size_t begin, std::size_t end, Run run) const {
    for (std::size_t at = begin; at < end;) {
      const std::size_t b = block == 0 ? 0 : at / block;
      const std::size_t stop = block == 0 ? end : std::min(end, (b + 1) * block);
      run(at, stop, b);
      at = stop;
    }
  }
  // The bytes of the chunk that begins with symbol `begin`.
  template <class Byte>
  std::span<Byte> chunk_of(std::span<Byte> packed, std::size_t begin, std::size_t count) const {
    return packed.subspan(begin / 8 * width(), kernels::packed_bytes(count, width()));
  }
};

// The largest magnitude; not finite just when a value is not.
inline float largest_magnitude(std::span<const float> values) {
  return std::bit_cast<float>(kernels::max_abs_bits(values));
}

template <class Norm>
bool LevelBlocks::encode(const Values& values, Norm norm, std::span<std::byte> side,
                         std::span<std::byte> packed) const {
  std::array<std::uint16_t, chunk> symbols;
  const std::size_t count = values.data.size();
  float of_block = 0;
  for (std::size_t begin = 0; begin < count; begin += chunk) {
    const std::size_t end = std::min(begin + chunk, count);
    bool finite = true;
    for_runs(begin, end, [&](std::size_t at, std::size_t stop, std::size_t b) {
      if (at == b * block) {
        of_block = norm(values.data.subspan(at, block == 0 ? count : std::min(block, count - at)));
        finite = finite && std::isfinite(of_block);
        kernels::store(side.data(), b, of_block);
      }
      const auto part = values.data.subspan(at, stop - at);
      const auto out = std::span(symbols).subspan(at - begin, stop - at);
      if (stochastic) {
        kernels::stochastic_levels(part, of_block, top(), values.draws.part(at, stop - at), out);
      } else {
        kernels::nearest_levels(part, of_block, top(), out);
      }
    });
    if (!finite) return false;
    kernels::pack_bits(std::span(symbols).first(end - begin), width(), chunk_of(packed, begin, end - begin));
  }
  return true;
}

inline void LevelBlocks::add_decoded(std::span<const std::byte> side, std::span<const std::byte> packed, float scale,
                                     std::span<float> out) const {
  std::array<std::uint16_t, chunk> symbols;
  for (std::size_t begin = 0; begin < out.size(); begin += chunk) {
    const std::size_t end = std::min(begin + chunk, out.size());
    const auto some = std::span(symbols).first(end - begin);
    kernels::unpack_bits(chunk_of(packed, begin, end - begin), width(), some);
    for_runs(begin, end, [&](std::size_t at, std::size_t stop, std::size_t b) {
      kernels::add_levels(some.subspan(at - begin, stop - at), kernels::load<float>(side.data(), b), top(), scale,
                          out.subspan(at, stop - at));
    });
  }
}

}  // namespace sotto
