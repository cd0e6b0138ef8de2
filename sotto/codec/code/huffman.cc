#include "sotto/codec/code/huffman.h"

#include "sotto/codec/code/bit_stream.h"

namespace sotto {
namespace {

constexpr std::size_t most_symbols = 512;
constexpr std::size_t most_levels = 15;

}  // namespace

void code_lengths(std::span<const std::uint32_t> counts, unsigned longest, std::span<std::uint8_t> lengths) {
  std::array<std::uint16_t, most_symbols> order{};  // symbols that occur, the rarest first; ties go to the smaller
  std::size_t n = 0;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    lengths[s] = 0;
    if (counts[s] > 0) order[n++] = static_cast<std::uint16_t>(s);
  }
  if (n == 1) {
    lengths[order[0]] = lengths[order[0] ^ 1U] = 1;
    return;
  }
  std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n),
            [&](std::uint16_t a, std::uint16_t b) { return counts[a] != counts[b] ? counts[a] < counts[b] : a < b; });

  // Makes one list for each bit of length. A list has all symbols and the pairs of the previous list, ordered by count,
  // symbols before pairs. Later only `is_symbol` of each list is needed.
  std::array<std::array<bool, 2 * most_symbols>, most_levels> is_symbol{};
  std::array<std::uint64_t, 2 * most_symbols> list{};
  std::array<std::uint64_t, most_symbols> pairs{};
  std::size_t pair_count = 0;
  for (unsigned level = 0; level < longest; ++level) {
    std::size_t symbol = 0;
    std::size_t pair = 0;
    for (std::size_t i = 0; i < n + pair_count; ++i) {
      is_symbol[level][i] = pair == pair_count || (symbol < n && counts[order[symbol]] <= pairs[pair]);
      list[i] = is_symbol[level][i] ? counts[order[symbol++]] : pairs[pair++];
    }
    pair_count = (n + pair_count) / 2;
    for (std::size_t i = 0; i < pair_count; ++i) pairs[i] = list[2 * i] + list[2 * i + 1];
  }
  // Takes the first 2 n - 2 entries of the last list, then the entries of the previous list that form the taken pairs,
  // and so on. A symbol's length is the number of lists in which it is taken.
  std::size_t taken = 2 * n - 2;
  for (unsigned level = longest; level-- > 0;) {
    const auto symbols = static_cast<std::size_t>(
        std::count(is_symbol[level].begin(), is_symbol[level].begin() + static_cast<std::ptrdiff_t>(taken), true));
    for (std::size_t i = 0; i < symbols; ++i) ++lengths[order[i]];
    taken = 2 * (taken - symbols);
  }
}

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
