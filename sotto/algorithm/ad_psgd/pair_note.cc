#include "sotto/algorithm/ad_psgd/pair_note.h"

#include "sotto/core/bytes.h"

namespace sotto {
namespace {

constexpr std::uint64_t most = std::uint64_t{1} << 40;  // steps or meetings: sums over all ranks do not overflow
constexpr std::uint64_t mark = std::uint64_t{1} << 63;

// The beginning of a note as it is sent; the ranks' steps follow.
struct Head {
  PairNote::Kind kind{};
  std::uint8_t zero = 0;
  std::uint16_t generation = 0;
  std::uint32_t number = 0;
  std::uint64_t meeting = 0, end = 0;
};
static_assert(sizeof(Head) == 24);

std::uint64_t checked(std::uint64_t count) {
  if (count > most) throw WireError("a note that counts " + std::to_string(count) + " steps or meetings");
  return count;
}

}  // namespace

void write_note(const PairNote& note, std::span<std::byte> room) {
  ByteWriter writer(room);
  writer.put(Head{note.kind, 0, note.generation, note.number, note.meeting, note.end});
  for (std::size_t rank = 0; rank < note.steps.size(); ++rank) {
    writer.put(note.steps[rank] | (note.about_all() && note.marked[rank] ? mark : 0));
  }
}

std::span<const std::byte> read_note(std::span<const std::byte> mail, int ranks, PairNote& note) {
  ByteReader reader(mail);
  const auto head = reader.get<Head>("note");
  if (head.kind > PairNote::Kind::ends || head.zero != 0) {
    throw WireError("a note of unknown kind " + std::to_string(static_cast<unsigned>(head.kind)));
  }
  note.kind = head.kind;
  note.generation = head.generation;
  note.number = head.number;
  note.meeting = checked(head.meeting);
  note.end = checked(head.end);
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
