#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sotto {

// The head of each message of averaging pairs (ad_psgd), before the model, if there is one. Little-endian:
//   kind u8 | 0 u8 | generation u16 | number u32 | meeting u64 | end u64 | for each rank: its steps in 63 bits, and the
//   mark of `met` and `ends` in the highest one
struct PairNote {
  enum class Kind : std::uint8_t {
    request,   // the sender's model follows in a later letter; the receiver's must come back, early if it can
    model,     // the sender's model, of the rank that asks or of the one that answers
    news,      // only what the note says about ranks
    question,  // the receiver must send news
    met,       // what the sender knows of a meeting: who has come, and the steps that these had made by then
    ends,      // what the sender knows of the end: who has said after which step it can end
  };

  Kind kind = Kind::news;
  std::uint16_t generation = 0;  // of the group of ranks
  // In a request and in both models: the number of the exchange, counted by the rank that asks. In news: 1 if the
  // sender has made steps since the meeting, else 0.
  std::uint32_t number = 0;
  std::uint64_t meeting = 0;         // the last one that the sender has come to; in met: the one that the note is about
  std::uint64_t end = 0;             // steps after which the sender can end; in ends: the most of all ranks; 0: no wish
  std::vector<std::uint64_t> steps;  // made by each rank, as far as the sender knows
  std::vector<bool> marked;          // in met: each rank that has come; in ends: each that has said when it can end

  bool about_all() const { return kind == Kind::met || kind == Kind::ends; }
  bool has_model() const { return kind == Kind::model; }
  bool has_number() const { return kind == Kind::request || kind == Kind::model; }
  static std::size_t bytes(int ranks) { return 24 + 8 * static_cast<std::size_t>(ranks); }
};

// REQUIRES PairNote::bytes() of room for the ranks in note.steps and, if the note is about all, a mark for each of
// them.
void write_note(const PairNote& note, std::span<std::byte> room);
// Reads the note of a group of `ranks` ranks into `note`, which is reused, and returns what follows it. WireError if it
// is no such note.
std::span<const std::byte> read_note(std::span<const std::byte> mail, int ranks, PairNote& note);

}  // namespace sotto
