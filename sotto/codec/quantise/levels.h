#pragma once

#include <algorithm>
#include <array>
#include <atomic>

#include "sotto/codec/quantise/packed_symbols.h"
#include "sotto/codec/quantise/side.h"
#include "sotto/codec/stage.h"
#include "sotto/kernels/bits.h"
#include "sotto/kernels/levels.h"
#include "sotto/kernels/run.h"

namespace sotto {

// Blocks of `block` values share a norm: one or several floats of the side information.
struct NormBlocks {
  static constexpr std::size_t chunk = 2048;  // values that are read twice while in the cache
  std::size_t block = 1;
  std::size_t floats = 1;

  std::size_t bytes() const { return floats * sizeof(float); }  // bytes of a block's norm
  std::size_t side_bytes(std::size_t values) const { return block_count(values, block) * bytes(); }

  // The norms of the values of a piece from `begin` on.
  kernels::Norms norms(std::span<const std::byte> side, std::size_t begin) const {
    return {side.subspan(begin / block * bytes()), block, begin % block};
  }
  // Calls write_norms(values, block, side) for whole blocks: it writes their norms and returns whether all are finite.
  // Calls run(begin, end) for one chunk after the other, after the chunk's norms are written. Returns false if a norm
  // is not finite.
  template <class WriteNorms, class Run>
  bool for_chunks(std::span<const float> values, std::span<std::byte> side, WriteNorms write_norms, Run run) const {
    const std::size_t count = values.size();
    std::size_t written = 0;  // blocks whose norms are written
    for (std::size_t begin = 0; begin < count; begin += chunk) {
      const std::size_t end = std::min(begin + chunk, count);
      const std::size_t blocks = block_count(end, block);
      if (blocks > written) {
        const auto whole = values.first(std::min(blocks * block, count)).subspan(written * block);
        if (!write_norms(whole, block, side.subspan(written * bytes()))) return false;
        written = blocks;
      }
      run(begin, end);
    }
    return true;
  }
};

// Writes the largest magnitude of each block as its norm; returns whether all are finite.
inline bool largest_magnitudes(std::span<const float> values, std::size_t block, std::span<std::byte> side) {
  return kernels::max_abs_blocks(values, block, side) < kernels::infinity_bits;
}

// The same for all blocks of a unit, on several threads.
inline bool write_norms(ThreadPool& pool, std::span<const float> values, std::size_t block, std::span<std::byte> side) {
  std::atomic<bool> finite = true;
  const std::size_t blocks_at_once = std::max<std::size_t>(kernels::sum_chunk / block, 1);
  pool.run_stretches(block_count(values.size(), block), blocks_at_once, [&](std::size_t begin, std::size_t end) {
    const auto part = values.subspan(begin * block, std::min(end * block, values.size()) - begin * block);
    if (!largest_magnitudes(part, block, side.subspan(begin * sizeof(float)))) finite = false;
  });
  return finite;
}

// What qsgd, int4 and terngrad share: levels of -top .. top times norm / top, packed as symbols of bits + 1 bits
// (kernels/levels.h).
struct LevelBlocks {
  NormBlocks blocks;
  unsigned bits = 1;
  bool stochastic = true;

  unsigned top() const { return (1U << bits) - 1; }
  unsigned width() const { return bits + 1; }

  // Encodes with norms as for_chunks() takes them. If not stochastic, no value may exceed its norm.
  template <class WriteNorms>
  bool encode(const Values& values, WriteNorms write_norms, std::span<std::byte> side,
              std::span<std::byte> packed) const {
    return blocks.for_chunks(values.data, side, write_norms, [&](std::size_t begin, std::size_t end) {
      write_symbols(values, begin, end, side, packed);
    });
  }

  // Writes the symbols of values [begin, end), whose norms are known. REQUIRES begin a multiple of 8.
  void write_symbols(const Values& values, std::size_t begin, std::size_t end, std::span<const std::byte> side,
                     std::span<std::byte> packed) const {
    if (width() > 8) {
      return PackedSymbols{width()}.pack(begin, end, packed, [&](std::size_t from, std::span<std::uint16_t> symbols) {
        round(values, from, side, symbols);
      });
    }
    std::array<std::byte, NormBlocks::chunk> levels;
    for (; begin < end; begin += NormBlocks::chunk) {
      const auto some = std::span(levels).first(std::min(NormBlocks::chunk, end - begin));
      round(values, begin, side, some);
      kernels::pack_levels(some, width(),
                           packed.subspan(begin / 8 * width(), kernels::packed_bytes(some.size(), width())));
    }
  }

  void add_decoded(const Quantised& in, float scale, std::span<float> out) const {
    add_symbols(in, scale, 0, out.size(), out);
  }

  // As add_decoded(), for values [begin, end) alone. REQUIRES begin a multiple of 8.
  void add_symbols(const Quantised& in, float scale, std::size_t begin, std::size_t end, std::span<float> out) const {
    PackedSymbols{width()}.unpack(begin, end, in.packed, [&](std::size_t from, std::span<const std::uint16_t> symbols) {
      kernels::add_levels(symbols, blocks.norms(in.side, from), top(), scale, out.subspan(from, symbols.size()));
    });
  }

 private:
  // Rounds to symbols, or to levels if those fit in a byte.
  template <class T>
  void round(const Values& values, std::size_t begin, std::span<const std::byte> side, std::span<T> out) const {
    const auto part = values.data.subspan(begin, out.size());
    const kernels::Norms norms = blocks.norms(side, begin);
    if (stochastic) {
      kernels::stochastic_levels(part, norms, top(), values.draws.part(begin, out.size()), out);
    } else {
      kernels::nearest_levels(part, norms, top(), out);
    }
  }
};

}  // namespace sotto
