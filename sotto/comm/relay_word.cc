#include "sotto/comm/relay_word.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "sotto/core/bytes.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

constexpr std::uint32_t relay_magic = 0x6C657273;  // "srel"

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
  writer.put(static_cast<std::uint32_t>(word.kind));
  writer.put_bytes(word.id);
  return room;
}

RelayWord read_relay_word(const RelayRoom& data) {
  ByteReader reader(data);
  const auto magic = reader.get<std::uint32_t>("word");
  const auto kind = reader.get<std::uint32_t>("word");
  if (magic != relay_magic || kind < 1 || kind > static_cast<std::uint32_t>(RelayWord::Kind::absent)) {
    throw WireError(fmt::format("{:#x} {:#x} is no word of a relay", magic, kind));
  }
  RelayWord word;
  word.kind = static_cast<RelayWord::Kind>(kind);
  std::ranges::copy(reader.take(sizeof(RelayId), "word"), word.id.begin());
  return word;
}

}  // namespace sotto
