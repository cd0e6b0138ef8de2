#include "sotto/codec/code/elias.h"

#include <fmt/format.h>

#include "sotto/codec/code/bit_stream.h"

namespace sotto {

std::optional<std::span<const std::byte>> Elias::encode_chunk(std::span<const std::uint16_t> symbols, std::size_t,
                                                              std::span<std::byte> room) const {
  BitWriter writer(room);
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    if (!options_.gaps) {
      writer.put_gamma(symbols[i] + 1U);
      continue;
    }
    std::uint32_t zeros = 0;
    for (; i < symbols.size() && symbols[i] == 0; ++i) ++zeros;
    writer.put_gamma(zeros + 1);
    if (i < symbols.size()) writer.put_gamma(symbols[i]);
  }
  const auto size = writer.size();
  return size ? std::optional<std::span<const std::byte>>(room.first(*size)) : std::nullopt;
}

void Elias::decode_chunk(std::span<const std::byte> in, std::size_t alphabet, std::span<std::uint16_t> symbols) const {
  BitReader reader(in);
  const auto symbol = [&](std::uint32_t number) {
    if (number >= alphabet) throw WireError(fmt::format("elias: symbol {} of {}", number, alphabet));
    return static_cast<std::uint16_t>(number);
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    if (!options_.gaps) {
      symbols[i] = symbol(reader.get_gamma() - 1);
      continue;
    }
    const std::size_t zeros = reader.get_gamma() - 1;
    if (zeros > symbols.size() - i)
      throw WireError(fmt::format("elias: {} zeros in {} symbols", zeros, symbols.size()));
    std::ranges::fill(symbols.subspan(i, zeros), std::uint16_t{0});
    i += zeros;
    if (i < symbols.size()) symbols[i] = symbol(reader.get_gamma());
  }
  if (const std::size_t used = reader.finish(); used != in.size()) {
    throw WireError(fmt::format("elias: {} bytes after a chunk", in.size() - used));
  }
}

}  // namespace sotto
