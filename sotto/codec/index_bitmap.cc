#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "sotto/codec/index_codes.h"

namespace sotto {
namespace {

// Writes the indices of the set bits in bytes [begin, end) of a bitmap to `indices`, from entry `place` on.
std::size_t read_bits(std::span<const std::byte> in, std::size_t begin, std::size_t end, std::size_t place,
                      std::span<std::uint32_t> indices) {
  const std::size_t first = place;
  for (std::size_t i = begin; i < end; ++i) {
    for (unsigned byte = std::to_integer<unsigned>(in[i]); byte != 0; byte &= byte - 1) {
      if (place >= indices.size()) throw_too_many(indices.size());
      indices[place++] = static_cast<std::uint32_t>(8 * i + static_cast<std::size_t>(std::countr_zero(byte)));
    }
  }
  return place - first;
}

}  // namespace

std::size_t bits_in(std::span<const std::byte> bytes) {
  std::size_t bits = 0;
  std::size_t i = 0;
  for (std::uint64_t word = 0; i + sizeof(word) <= bytes.size(); i += sizeof(word)) {
    std::memcpy(&word, &bytes[i], sizeof(word));
    bits += static_cast<std::size_t>(std::popcount(word));
  }
  for (; i < bytes.size(); ++i) bits += static_cast<std::size_t>(std::popcount(std::to_integer<unsigned>(bytes[i])));
  return bits;
}

void write_bitmap(ThreadPool& pool, std::span<const std::uint32_t> indices, std::span<std::byte> out) {
  pool.run_stretches(out.size(), index_grain(pool), [&](std::size_t begin, std::size_t end) {
    std::fill(&out[begin], &out[begin] + (end - begin), std::byte{0});
    auto at = std::ranges::lower_bound(indices, 8 * begin);
    while (at != indices.end() && *at < 8 * end) {
      if (*at % 8 == 0 && indices.end() - at >= 8 && at[7] == *at + 7) {  // a whole byte
        out[*at / 8] = std::byte{0xFF};
        at += 8;
      } else {
        out[*at / 8] |= static_cast<std::byte>(1U << (*at % 8));
        ++at;
      }
    }
  });
}

std::size_t read_bitmap(ThreadPool& pool, std::span<const std::byte> in, std::size_t atoms,
                        std::span<std::uint32_t> indices) {
  if (in.size() != bitmap_bytes(atoms)) {
    throw WireError(fmt::format("index bitmap of {} bytes for {} atoms", in.size(), atoms));
  }
  const unsigned after = atoms % 8 == 0 ? 0 : std::to_integer<unsigned>(in.back()) >> (atoms % 8);
  if (after != 0) {
    throw_beyond(atoms + static_cast<unsigned>(std::countr_zero(after)), atoms);
  }
  std::atomic<std::size_t> total = 0;
  fill_in_order(
      pool, in.size(), index_grain(pool),
      [&](std::size_t begin, std::size_t end) { return bits_in(in.subspan(begin, end - begin)); },
      [&](std::size_t begin, std::size_t end, std::size_t place) {
        total += read_bits(in, begin, end, place, indices);
      });
  return total;
}

}  // namespace sotto
