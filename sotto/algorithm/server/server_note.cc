#include "sotto/algorithm/server/server_note.h"

#include <fmt/format.h>

#include "sotto/core/bytes.h"

namespace sotto {
namespace {

constexpr std::uint16_t magic = 0x7370;  // "ps"; a coded message begins with "so"

}  // namespace

bool is_note(std::span<const std::byte> bytes) {
  return bytes.size() >= sizeof(magic) && ByteReader(bytes).get<std::uint16_t>("note") == magic;
}

void write_note(const ServerNote& note, std::span<std::byte> room) {
  ByteWriter writer(room.first(ServerNote::bytes));
  writer.put(magic);
  writer.put(static_cast<std::uint16_t>(note.kind));
  writer.put(note.generation);
  writer.put(std::uint16_t{0});
  writer.put(note.step);
  writer.put(note.version);
  writer.put(note.stop);
  ServerNote::is_of_server(note.kind) ? writer.put(note.made) : writer.put(note.rate);
  writer.put(note.loss);
}

ServerNote read_note(std::span<const std::byte> bytes, std::uint16_t generation) {
  ByteReader reader(bytes);
  if (reader.get<std::uint16_t>("note") != magic) throw WireError("this is no note of a worker or server");
  ServerNote note;
  const auto kind = reader.get<std::uint16_t>("note");
  if (kind < 1 || kind > static_cast<std::uint16_t>(ServerNote::Kind::rested)) {
    throw WireError(fmt::format("a note of the unknown kind {}", kind));
  }
  note.kind = static_cast<ServerNote::Kind>(kind);
  note.generation = reader.get<std::uint16_t>("note");
  if (note.generation != generation) {
    throw WireError(fmt::format("a note of generation {}, and {} is expected", note.generation, generation));
  }
  if (reader.get<std::uint16_t>("note") != 0) throw WireError("a note whose unused bytes are not 0");
  note.step = reader.get<std::uint64_t>("note");
  note.version = reader.get<std::uint64_t>("note");
  note.stop = reader.get<std::uint64_t>("note");
  if (ServerNote::is_of_server(note.kind)) {
    note.made = reader.get<std::uint64_t>("note");
  } else {
    note.rate = reader.get<double>("note");
  }
  note.loss = reader.get<double>("note");
  return note;
}

}  // namespace sotto
