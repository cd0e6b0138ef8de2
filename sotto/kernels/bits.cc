#include "sotto/kernels/bits.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

namespace sotto::kernels {
namespace {

using Wide = unsigned __int128;  // eight symbols of at most 16 bits

// Eight symbols are `Width` whole bytes. A narrow word is enough up to 8 bits, and twice as fast.
template <unsigned Width>
using Word = std::conditional_t<(Width <= 8), std::uint64_t, Wide>;

// Whole words are moved while the buffer has room for one: what a word is too long is overwritten, or shifted out.
template <unsigned Width>
void pack(const std::uint16_t* symbols, std::size_t count, std::byte* out) {
  using W = Word<Width>;
  std::size_t left = packed_bytes(count, Width);
  while (left > 0) {
    const std::size_t group = std::min<std::size_t>(count, 8);
    W word = 0;
    if (group == 8) {
      for (unsigned j = 0; j < 8; ++j) word |= static_cast<W>(symbols[j]) << (j * Width);
    } else {
      for (unsigned j = 0; j < group; ++j) word |= static_cast<W>(symbols[j]) << (j * Width);
    }
    const std::size_t used = std::min<std::size_t>(left, Width);
    if (left >= sizeof(W)) {
      std::memcpy(out, &word, sizeof(W));
    } else {
      std::memcpy(out, &word, used);
    }
    symbols += group;
    count -= group;
    out += used;
    left -= used;
  }
}

template <unsigned Width>
void unpack(const std::byte* in, std::size_t count, std::uint16_t* symbols) {
  using W = Word<Width>;
  constexpr std::uint16_t mask = static_cast<std::uint16_t>((1U << Width) - 1);
  std::size_t left = packed_bytes(count, Width);
  while (left > 0) {
    const std::size_t group = std::min<std::size_t>(count, 8);
    const std::size_t used = std::min<std::size_t>(left, Width);
    W word = 0;
    if (left >= sizeof(W)) {
      std::memcpy(&word, in, sizeof(W));
    } else {
      std::memcpy(&word, in, used);
    }
    if (group == 8) {
      for (unsigned j = 0; j < 8; ++j) symbols[j] = static_cast<std::uint16_t>(word >> (j * Width)) & mask;
    } else {
      for (unsigned j = 0; j < group; ++j) symbols[j] = static_cast<std::uint16_t>(word >> (j * Width)) & mask;
    }
    symbols += group;
    count -= group;
    in += used;
    left -= used;
  }
}

using Pack = void (*)(const std::uint16_t*, std::size_t, std::byte*);
using Unpack = void (*)(const std::byte*, std::size_t, std::uint16_t*);

template <unsigned... Widths>
constexpr std::array<Pack, 16> pack_table(std::integer_sequence<unsigned, Widths...>) {
  return {pack<Widths + 1>...};
}
template <unsigned... Widths>
constexpr std::array<Unpack, 16> unpack_table(std::integer_sequence<unsigned, Widths...>) {
  return {unpack<Widths + 1>...};
}

constexpr auto packers = pack_table(std::make_integer_sequence<unsigned, 16>{});
constexpr auto unpackers = unpack_table(std::make_integer_sequence<unsigned, 16>{});

}  // namespace

void pack_bits(std::span<const std::uint16_t> symbols, unsigned width, std::span<std::byte> out) {
  packers[width - 1](symbols.data(), symbols.size(), out.data());
}

void unpack_bits(std::span<const std::byte> in, unsigned width, std::span<std::uint16_t> symbols) {
  unpackers[width - 1](in.data(), symbols.size(), symbols.data());
}

}  // namespace sotto::kernels
