#include "sotto/codec/code/huffman.h"

#include "sotto/codec/code/bit_stream.h"
#include "sotto/codec/code/code_lengths.h"
#include "sotto/core/error.h"

namespace sotto {

void Huffman::assign(std::span<const std::uint8_t> lengths) {
  std::uint32_t code = 0;
  for (unsigned length = 1; length <= longest; ++length) {
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      if (lengths[s] != length) continue;
      std::uint32_t bits = 0;
      for (unsigned b = 0; b < length; ++b) bits |= (code >> b & 1U) << (length - 1 - b);
      words_[s] = {static_cast<std::uint16_t>(bits), static_cast<std::uint8_t>(length)};
      ++code;
    }
    code <<= 1;
  }
}

std::optional<std::size_t> Huffman::write_model(std::span<const std::uint32_t> counts, std::span<std::byte> out) {
  std::array<std::uint8_t, most_symbols> room;
  const auto lengths = std::span(room).first(counts.size());
  code_lengths(counts, longest, lengths);
  assign(lengths);
  BitWriter writer(out);
  std::uint32_t left = 1U << longest;
  for (std::size_t s = 0; left > 0; ++s) {
    writer.put(lengths[s], 4);
    if (lengths[s] > 0) left -= 1U << (longest - lengths[s]);
  }
  return writer.size();
}

std::size_t Huffman::read_model(std::span<const std::byte> in, std::size_t alphabet) {
  BitReader reader(in);
  std::array<std::uint8_t, most_symbols> lengths{};
  std::uint32_t left = 1U << longest;
  for (std::size_t s = 0; left > 0; ++s) {
    if (s == alphabet) throw WireError("huffman: code words that are too few");
    lengths[s] = static_cast<std::uint8_t>(reader.get(4));
    if (lengths[s] == 0) continue;
    if (lengths[s] > longest || 1U << (longest - lengths[s]) > left)
      throw WireError("huffman: code words that overlap");
    left -= 1U << (longest - lengths[s]);
  }
  assign(std::span(lengths).first(alphabet));
  for (std::size_t s = 0; s < alphabet; ++s) {
    if (lengths[s] == 0) continue;
    const std::size_t step = std::size_t{1} << lengths[s];
    for (std::size_t bits = words_[s].bits; bits < decoded_.size(); bits += step) {
      decoded_[bits] = static_cast<std::uint16_t>(s << 4 | lengths[s]);
    }
  }
  return reader.finish();
}

std::optional<std::span<const std::byte>> Huffman::encode_chunk(std::span<const std::uint16_t> symbols, std::size_t,
                                                                std::span<std::byte> room) const {
  BitWriter writer(room);
  std::size_t i = 0;
  for (; i + 4 <= symbols.size(); i += 4) {  // at most 48 bits
    std::uint64_t bits = 0;
    unsigned length = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      const Word& word = words_[symbols[i + j]];
      bits |= std::uint64_t{word.bits} << length;
      length += word.length;
    }
    writer.put(bits, length);
  }
  for (; i < symbols.size(); ++i) writer.put(words_[symbols[i]].bits, words_[symbols[i]].length);
  return room.first(*writer.size());  // two bytes a symbol are enough
}

void Huffman::decode_chunk(std::span<const std::byte> in, std::size_t, std::span<std::uint16_t> symbols) const {
  BitReader reader(in);
  for (std::uint16_t& symbol : symbols) {
    const std::uint16_t found = decoded_[reader.peek(longest) & ((1U << longest) - 1)];
    reader.skip(found & 15U);
    symbol = static_cast<std::uint16_t>(found >> 4);
  }
  if (reader.finish() != in.size()) throw WireError("huffman: bytes after a chunk");
}

}  // namespace sotto
