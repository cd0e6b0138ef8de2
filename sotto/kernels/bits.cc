#include "sotto/kernels/bits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/bits.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <algorithm>
#include <array>
#include <cstring>

#include "sotto/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

constexpr std::size_t group = 8;  // symbols; packed they take `width` whole bytes

// Packs a group, or the shorter rest of the symbols, into at most 64 bits, or 72 with a width of 9.
void pack_group(std::span<const std::uint16_t> symbols, unsigned width, std::span<std::byte> out) {
  std::uint64_t low = 0;
  for (std::size_t j = 0; j < symbols.size(); ++j) low |= std::uint64_t{symbols[j]} << (j * width);
  std::memcpy(out.data(), &low, std::min(out.size(), sizeof(low)));
  if (out.size() > sizeof(low)) out[sizeof(low)] = static_cast<std::byte>(symbols[group - 1] >> 1);
}

void unpack_group(std::span<const std::byte> in, unsigned width, std::span<std::uint16_t> symbols) {
  std::uint64_t low = 0;
  std::memcpy(&low, in.data(), std::min(in.size(), sizeof(low)));
  const std::uint64_t mask = (1U << width) - 1;
  for (std::size_t j = 0; j < symbols.size(); ++j) symbols[j] = static_cast<std::uint16_t>((low >> (j * width)) & mask);
  if (in.size() > sizeof(low)) {
    symbols[group - 1] =
        static_cast<std::uint16_t>(symbols[group - 1] | std::to_integer<unsigned>(in[sizeof(low)]) << 1);
  }
}

void pack_bits(std::span<const std::uint16_t> symbols, unsigned width, std::span<std::byte> out) {
  // Joins neighbours to one symbol of twice the width, three times. A group is then the lower of two 64-bit words; with
  // a width of 9, the highest 8 bits of the group are in the other word.
  using Words = hn::CappedTag<std::uint64_t, 8>;
  const hn::Repartition<std::uint32_t, Words> pairs;
  const hn::Repartition<std::uint16_t, Words> single;
  constexpr std::size_t step = hn::MaxLanes(single);
  std::uint64_t words[step / 4];
  std::size_t i = 0;
  std::size_t at = 0;
  const int w = static_cast<int>(width);
  for (; i + step <= symbols.size() && at + step / group * width + sizeof(std::uint64_t) <= out.size(); i += step) {
    const auto two = hn::BitCast(pairs, hn::LoadU(single, &symbols[i]));
    const auto low2 = hn::And(two, hn::Set(pairs, 0xFFFFU));
    const auto four = hn::BitCast(Words(), hn::Or(low2, hn::ShiftLeftSame(hn::ShiftRight<16>(two), w)));
    const auto low4 = hn::And(four, hn::Set(Words(), 0xFFFFFFFFU));
    const auto eight = hn::Or(low4, hn::ShiftLeftSame(hn::ShiftRight<32>(four), 2 * w));
    hn::StoreU(hn::Or(eight, hn::ShiftLeftSame(hn::Shuffle01(eight), 4 * w)), Words(), words);
    for (std::size_t j = 0; j < step / 4; j += 2, at += width) {
      std::memcpy(&out[at], &words[j], sizeof(std::uint64_t));
      if (width > 8) out[at + 8] = static_cast<std::byte>(symbols[i + 4 * j + 7] >> 1);
    }
  }
  for (; i < symbols.size(); i += group, at += width) {
    const std::size_t count = std::min(group, symbols.size() - i);
    pack_group(symbols.subspan(i, count), width, out.subspan(at, packed_bytes(count, width)));
  }
}

// Moves, in each lane, the lowest `bits` bits of the upper half right after the same bits of the lower half.
template <int bits, class D>
HWY_INLINE hn::Vec<D> join_halves(D d, hn::Vec<D> v) {
  using T = hn::TFromD<D>;
  constexpr int half = sizeof(T) * 4;
  constexpr auto low = static_cast<T>((T{1} << bits) - 1);
  return hn::OrAnd(hn::And(v, hn::Set(d, low)), hn::ShiftRight<half - bits>(v),
                   hn::Set(d, static_cast<T>(low << bits)));
}

using Levels = hn::CappedTag<std::int8_t, 64>;
constexpr std::size_t levels_at_once = hn::MaxLanes(Levels());
constexpr std::size_t block = 16;  // bytes that are stored at once; two groups use 2 * width of them

// May write up to a block beyond the packed symbols.
template <int width>
HWY_INLINE void pack_vector(const std::byte* levels, hn::Vec<hn::Repartition<std::uint8_t, Levels>> source,
                            std::byte* out) {
  const hn::Repartition<std::uint8_t, Levels> d8;
  const hn::Repartition<std::uint16_t, Levels> d16;
  const hn::Repartition<std::uint32_t, Levels> d32;
  const hn::Repartition<std::uint64_t, Levels> d64;
  const auto level = load_bytes(Levels(), levels);
  auto symbols = hn::BitCast(d8, hn::Xor(hn::Add(level, level), hn::BroadcastSignBit(level)));
  if constexpr (width < 8) {
    const auto two = join_halves<width>(d16, hn::BitCast(d16, symbols));
    const auto four = join_halves<2 * width>(d32, hn::BitCast(d32, two));
    symbols = hn::BitCast(d8, join_halves<4 * width>(d64, hn::BitCast(d64, four)));
  }
  HWY_ALIGN std::byte packed[levels_at_once];
  store_bytes(d8, hn::TableLookupBytes(symbols, source), packed);
  for (std::size_t b = 0; b < levels_at_once; b += block, out += 2 * width) std::memcpy(out, packed + b, block);
}

template <int width>
void pack_vectors(std::span<const std::byte> levels, std::span<std::byte> out) {
  constexpr std::size_t taken = levels_at_once / group * width;
  HWY_ALIGN std::uint8_t sources[levels_at_once];
  for (std::size_t i = 0; i < levels_at_once; ++i) {
    const std::size_t j = i % block;
    sources[i] = static_cast<std::uint8_t>(j < width ? j : j < 2 * width ? j - width + group : 0x80);
  }
  const auto source = hn::Load(hn::Repartition<std::uint8_t, Levels>(), sources);
  std::size_t i = 0;
  std::size_t at = 0;
  for (; i + levels_at_once <= levels.size() && at + taken + block <= out.size(); i += levels_at_once, at += taken) {
    pack_vector<width>(&levels[i], source, &out[at]);
  }
  for (; i < levels.size(); i += levels_at_once, at += taken) {
    std::byte last[levels_at_once] = {};
    std::byte packed[taken + block];
    std::copy_n(levels.begin() + static_cast<std::ptrdiff_t>(i), std::min(levels_at_once, levels.size() - i), last);
    pack_vector<width>(last, source, packed);
    std::copy_n(packed, std::min(taken, out.size() - at), out.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

void pack_levels(std::span<const std::byte> levels, unsigned width, std::span<std::byte> out) {
  switch (width) {
    case 2: return pack_vectors<2>(levels, out);
    case 3: return pack_vectors<3>(levels, out);
    case 4: return pack_vectors<4>(levels, out);
    case 5: return pack_vectors<5>(levels, out);
    case 6: return pack_vectors<6>(levels, out);
    case 7: return pack_vectors<7>(levels, out);
    default: return pack_vectors<8>(levels, out);
  }
}

void unpack_bits(std::span<const std::byte> in, unsigned width, std::span<std::uint16_t> symbols) {
  // Each lane takes the two bytes that hold its symbol, shifts the symbol to the top by a multiplication, and down
  // again.
  const hn::CappedTag<std::uint8_t, 16> bytes;
  const hn::Repartition<std::uint16_t, decltype(bytes)> d;
  HWY_ALIGN std::uint8_t sources[16];
  HWY_ALIGN std::uint16_t factors[group];
  for (unsigned j = 0; j < group; ++j) {
    sources[2 * j] = static_cast<std::uint8_t>(j * width / 8);
    sources[2 * j + 1] = static_cast<std::uint8_t>(std::min(j * width / 8 + 1, 15U));
    factors[j] = static_cast<std::uint16_t>(1U << (16 - width - j * width % 8));
  }
  const auto source = hn::Load(bytes, sources);
  const auto factor = hn::Load(d, factors);
  const int down = 16 - static_cast<int>(width);
  std::size_t i = 0;
  std::size_t at = 0;
  for (; i + group <= symbols.size() && at + sizeof(sources) <= in.size(); i += group, at += width) {
    const auto words = hn::BitCast(d, hn::TableLookupBytes(load_bytes(bytes, &in[at]), source));
    hn::StoreU(hn::ShiftRightSame(hn::Mul(words, factor), down), d, &symbols[i]);
  }
  for (; i < symbols.size(); i += group, at += width) {
    const std::size_t count = std::min(group, symbols.size() - i);
    unpack_group(in.subspan(at, packed_bytes(count, width)), width, symbols.subspan(i, count));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(pack_bits);
HWY_EXPORT(pack_levels);
HWY_EXPORT(unpack_bits);

namespace {

constexpr unsigned widest_group = 9;  // of the loops above

// Packs one symbol after the other through a word that collects four bytes before they are written.
template <class Symbol>
void pack_one_by_one(std::span<const Symbol> symbols, unsigned width, std::span<std::byte> out) {
  std::uint64_t word = 0;
  unsigned bits = 0;
  std::size_t at = 0;
  for (const Symbol symbol : symbols) {
    word |= std::uint64_t{symbol} << bits;
    bits += width;
    if (bits < 32) continue;
    std::memcpy(&out[at], &word, 4);
    word >>= 32;
    bits -= 32;
    at += 4;
  }
  if (at < out.size()) std::memcpy(&out[at], &word, out.size() - at);
}

template <class Symbol>
void unpack_one_by_one(std::span<const std::byte> in, unsigned width, std::span<Symbol> symbols) {
  const std::uint64_t mask = (std::uint64_t{1} << width) - 1;
  std::uint64_t word = 0;
  unsigned bits = 0;
  std::size_t at = 0;
  for (Symbol& symbol : symbols) {
    if (bits < width) {
      std::uint32_t next = 0;
      std::memcpy(&next, &in[at], std::min<std::size_t>(sizeof(next), in.size() - at));
      word |= std::uint64_t{next} << bits;
      bits += 32;
      at += 4;
    }
    symbol = static_cast<Symbol>(word & mask);
    word >>= width;
    bits -= width;
  }
}

}  // namespace

void pack_bits(std::span<const std::uint16_t> symbols, unsigned width, std::span<std::byte> out) {
  if (width > widest_group) return pack_one_by_one(symbols, width, out);
  HWY_DYNAMIC_DISPATCH(pack_bits)(symbols, width, out);
}
void pack_levels(std::span<const std::byte> levels, unsigned width, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(pack_levels)(levels, width, out);
}
void unpack_bits(std::span<const std::byte> in, unsigned width, std::span<std::uint16_t> symbols) {
  if (width > widest_group) return unpack_one_by_one(in, width, symbols);
  HWY_DYNAMIC_DISPATCH(unpack_bits)(in, width, symbols);
}
void pack_bits(std::span<const std::uint32_t> symbols, unsigned width, std::span<std::byte> out) {
  pack_one_by_one(symbols, width, out);
}
void unpack_bits(std::span<const std::byte> in, unsigned width, std::span<std::uint32_t> symbols) {
  unpack_one_by_one(in, width, symbols);
}

void count_symbols(std::span<const std::uint16_t> symbols, std::span<std::uint32_t> counts) {
  // Neighbours are often equal. They are counted in different places, so that no increment waits for the previous one.
  constexpr std::size_t places = 4;
  std::array<std::array<std::uint32_t, 512>, places> some;
  for (auto& place : some) std::fill_n(place.begin(), counts.size(), 0U);
  std::size_t i = 0;
  for (; i + places <= symbols.size(); i += places) {
    for (std::size_t j = 0; j < places; ++j) ++some[j][symbols[i + j]];
  }
  for (; i < symbols.size(); ++i) ++some[0][symbols[i]];
  for (std::size_t s = 0; s < counts.size(); ++s) {
    for (const auto& place : some) counts[s] += place[s];
  }
}

}  // namespace sotto::kernels
#endif
