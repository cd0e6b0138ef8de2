#include "sotto/comm/relay/word.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "sotto/core/bytes.h"
#include "sotto/core/error.h"
#include "sotto/kernels/checksum.h"

namespace sotto {
namespace {

constexpr std::uint32_t relay_magic = 0x6C657273;  // "srel"
constexpr std::uint8_t version = 1;                // words of version 0 had 24 bytes, without a checksum
constexpr std::size_t checked = RelayWord::bytes - sizeof(std::uint32_t);

}  // namespace

RelayId new_relay_id() {
  RelayId id;
  std::random_device random;
  std::ranges::generate(id, [&] { return static_cast<std::byte>(random()); });
  return id;
}

RelayRoom write_relay_word(const RelayWord& word) {
  RelayRoom room{};
  ByteWriter writer(room);
  writer.put(relay_magic);
  writer.put(static_cast<std::uint8_t>(word.kind));
  writer.put(version);
  writer.put(std::uint16_t{0});
  writer.put_bytes(word.id);
  writer.put(kernels::crc32(0, std::span(room).first<checked>()));
  return room;
}

RelayWord read_relay_word(const RelayRoom& data) {
  ByteReader reader(data);
  const auto magic = reader.get<std::uint32_t>("word");
  const auto kind = reader.get<std::uint8_t>("word");
  const auto theirs = reader.get<std::uint8_t>("word");
  const auto zero = reader.get<std::uint16_t>("word");
  const bool right = magic == relay_magic && zero == 0;
  if (right && theirs != version) {
    throw WireError(fmt::format("a word to a relay of version {} instead of {}", theirs, version));
  }
  if (!right || kind < 1 || kind > static_cast<std::uint8_t>(RelayWord::Kind::absent)) {
    throw WireError(fmt::format("{:#x} {:#x} is no word of a relay", magic, kind));
  }
  RelayWord word;
  word.kind = static_cast<RelayWord::Kind>(kind);
  std::ranges::copy(reader.take(sizeof(RelayId), "word"), word.id.begin());
  if (reader.get<std::uint32_t>("word") != kernels::crc32(0, std::span(data).first<checked>())) {
    throw WireError("a word to a relay was changed on the way");
  }
  return word;
}

bool may_be_relay_word(const RelayRoom& data, std::size_t bytes) {
  constexpr std::size_t told = 8;  // magic word, kind and version
  ByteReader reader(data);
  return bytes < told || (reader.get<std::uint32_t>("word") == relay_magic && data[5] == std::byte{version});
}

}  // namespace sotto
