#include "sotto/algorithm/server/server_note.h"

#include <fmt/format.h>

#include <bit>

#include "sotto/core/bytes.h"

namespace sotto {
namespace {

constexpr std::uint16_t magic = 0x7370;  // "ps"; a coded message begins with "so"

// A note as it is sent.
struct Head {
  std::uint16_t word = magic;
  ServerNote::Kind kind{};
  std::uint16_t generation = 0, zero = 0;
  std::uint64_t step = 0, version = 0, stop = 0;
  std::uint64_t made_or_rate = 0;  // from a worker: the bits of the rate
  double loss = 0;
};
static_assert(sizeof(Head) == ServerNote::bytes);

}  // namespace

bool is_note(std::span<const std::byte> bytes) {
  return bytes.size() >= sizeof(magic) && ByteReader(bytes).get<std::uint16_t>("note") == magic;
}

void write_note(const ServerNote& note, std::span<std::byte> room) {
  ByteWriter(room).put(
      Head{.kind = note.kind,
           .generation = note.generation,
           .step = note.step,
           .version = note.version,
           .stop = note.stop,
           .made_or_rate = ServerNote::is_of_server(note.kind) ? note.made : std::bit_cast<std::uint64_t>(note.rate),
           .loss = note.loss});
}

ServerNote read_note(std::span<const std::byte> bytes, std::uint16_t generation) {
  const auto head = ByteReader(bytes).get<Head>("note");
  if (head.word != magic) throw WireError("this is no note of a worker or server");
  if (head.kind < ServerNote::Kind::gradient || head.kind > ServerNote::Kind::rested) {
    throw WireError(fmt::format("a note of the unknown kind {}", static_cast<unsigned>(head.kind)));
  }
  if (head.generation != generation) {
    throw WireError(fmt::format("a note of generation {}, and {} is expected", head.generation, generation));
  }
  if (head.zero != 0) throw WireError("a note whose unused bytes are not 0");
  ServerNote note{.kind = head.kind,
                  .generation = head.generation,
                  .step = head.step,
                  .version = head.version,
                  .stop = head.stop,
                  .loss = head.loss};
  if (ServerNote::is_of_server(note.kind)) {
    note.made = head.made_or_rate;
  } else {
    note.rate = std::bit_cast<double>(head.made_or_rate);
  }
  return note;
}

}  // namespace sotto
