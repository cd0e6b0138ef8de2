#include "sotto/algorithm/ad_psgd/pair_note.h"

#include "sotto/core/bytes.h"

namespace sotto {
namespace {

constexpr std::uint64_t most = std::uint64_t{1} << 40;  // steps or meetings: sums over all ranks do not overflow
constexpr std::uint64_t mark = std::uint64_t{1} << 63;

std::uint64_t checked(std::uint64_t count) {
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
  for (std::size_t rank = 0; rank < note.steps.size(); ++rank) {
    writer.put(note.steps[rank] | (note.about_all() && note.marked[rank] ? mark : 0));
  }
}

std::span<const std::byte> read_note(std::span<const std::byte> mail, int ranks, PairNote& note) {
  ByteReader reader(mail);
  const auto kind = reader.get<std::uint8_t>("note");
  const auto zero = reader.get<std::uint8_t>("note");
  if (kind > static_cast<std::uint8_t>(PairNote::Kind::ends) || zero != 0) {
    throw WireError("a note of unknown kind " + std::to_string(kind));
  }
  note.kind = static_cast<PairNote::Kind>(kind);
  note.generation = reader.get<std::uint16_t>("note");
  note.number = reader.get<std::uint32_t>("note");
  note.meeting = checked(reader.get<std::uint64_t>("note"));
  note.end = checked(reader.get<std::uint64_t>("note"));
  note.steps.clear();
  note.marked.clear();
  for (int rank = 0; rank < ranks; ++rank) {
    const auto count = reader.get<std::uint64_t>("note");
    const bool marked = note.about_all() && (count & mark) != 0;
    note.steps.push_back(checked(marked ? count - mark : count));
    note.marked.push_back(marked);
  }
  if (!note.has_model()) reader.finish("a note");
  return reader.rest();
}

}  // namespace sotto
