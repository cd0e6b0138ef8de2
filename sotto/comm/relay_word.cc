#include "sotto/comm/relay_word.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
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

std::string relay_id_text(const RelayId& id) {
  std::string text;
  for (const std::byte part : id) text += fmt::format("{:02x}", std::to_integer<unsigned>(part));
  return text;
}

bool read_relay_id(std::string_view text, RelayId& id) {
  if (text.size() != 2 * id.size()) return false;
  for (std::size_t i = 0; i < id.size(); ++i) {
    const char* const digits = text.data() + 2 * i;
    unsigned value = 0;
    if (std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2) return false;
    id.at(i) = static_cast<std::byte>(value);
  }
  return true;
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
