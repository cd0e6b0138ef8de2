#include "sotto/algorithm/ad_psgd/pair_note.h"

#include "sotto/core/bytes.h"

namespace sotto {
namespace {

constexpr std::uint64_t most = std::uint64_t{1} << 40;  // steps or meetings: sums over all ranks do not overflow

std::uint64_t get_count(ByteReader& reader) {
  const auto count = reader.get<std::uint64_t>("note");
  if (count > most) throw WireError("a note that counts " + std::to_string(count) + " steps or meetings");
  return count;
}

}  // namespace

void write_note(const PairNote& note, std::span<std::byte> room) {
  ByteWriter writer(room);
  writer.put(note.kind);
  writer.put(std::uint8_t{0});
  writer.put(note.generation);
  writer.put(note.number);
  writer.put(note.meeting);
  writer.put(note.end);
  for (const std::uint64_t steps : note.steps) writer.put(steps);
}

std::span<const std::byte> read_note(std::span<const std::byte> mail, int ranks, PairNote& note) {
  ByteReader reader(mail);
  const auto kind = reader.get<std::uint8_t>("note");
  const auto zero = reader.get<std::uint8_t>("note");
  if (kind > static_cast<std::uint8_t>(PairNote::Kind::question) || zero != 0) {
    throw WireError("a note of unknown kind " + std::to_string(kind));
  }
  note.kind = static_cast<PairNote::Kind>(kind);
  note.generation = reader.get<std::uint16_t>("note");
  note.number = reader.get<std::uint32_t>("note");
  note.meeting = get_count(reader);
  note.end = get_count(reader);
  note.steps.resize(static_cast<std::size_t>(ranks));
  for (std::uint64_t& steps : note.steps) steps = get_count(reader);
  const bool has_model = note.kind == PairNote::Kind::request || note.kind == PairNote::Kind::answer;
  if (!has_model) reader.finish("a note");
  return reader.rest();
}

}  // namespace sotto
