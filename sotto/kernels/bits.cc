#include "sotto/kernels/bits.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace sotto::kernels {
namespace {

using Wide = unsigned __int128;  // eight symbols of at most 16 bits

// Eight symbols are `Width` whole bytes. A narrow word is enough up to 8 bits, and twice as fast.
template <unsigned Width>
using Word = std::conditional_t<(Width <= 8), std::uint64_t, Wide>;

template <unsigned Width>
void pack(const std::uint16_t* symbols, std::size_t count, std::byte* out) {
  for (; count >= 8; count -= 8, symbols += 8, out += Width) {
    Word<Width> word = 0;
    for (unsigned j = 0; j < 8; ++j) word |= static_cast<Word<Width>>(symbols[j]) << (j * Width);
    std::memcpy(out, &word, Width);
  }
  if (count > 0) {
    Wide word = 0;
    for (unsigned j = 0; j < count; ++j) word |= static_cast<Wide>(symbols[j]) << (j * Width);
    std::memcpy(out, &word, packed_bytes(count, Width));
  }
}

template <unsigned Width>
void unpack(const std::byte* in, std::size_t count, std::uint16_t* symbols) {
  constexpr std::uint16_t mask = static_cast<std::uint16_t>((1U << Width) - 1);
  for (; count >= 8; count -= 8, symbols += 8, in += Width) {
    Word<Width> word = 0;
    std::memcpy(&word, in, Width);
    for (unsigned j = 0; j < 8; ++j) symbols[j] = static_cast<std::uint16_t>(word >> (j * Width)) & mask;
  }
  if (count > 0) {
    Wide word = 0;
    std::memcpy(&word, in, packed_bytes(count, Width));
    for (unsigned j = 0; j < count; ++j) symbols[j] = static_cast<std::uint16_t>(word >> (j * Width)) & mask;
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
