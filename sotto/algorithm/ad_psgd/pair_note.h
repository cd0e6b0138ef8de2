#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sotto {

// The head of each message of averaging pairs (ad_psgd), before the model, if there is one. Little-endian:
//   kind u8 | 0 u8 | generation u16 | number u32 | meeting u64 | end u64 | steps u64 of each rank
struct PairNote {
  enum class Kind : std::uint8_t {
    request,   // the sender's model follows, and the receiver's must come back
    answer,    // the model that comes back
    news,      // no model, only what the note says of ranks
    question,  // the receiver must send news
  };

  Kind kind = Kind::news;
  std::uint16_t generation = 0;      // of the group of ranks
  std::uint32_t number = 0;          // of request and answer: the exchange, as the rank that asks counts
  std::uint64_t meeting = 0;         // the last one that the sender has come to
  std::uint64_t end = 0;             // the steps after which the sender can end; 0: it knows of no wish to end
  std::vector<std::uint64_t> steps;  // that each rank has made, as far as the sender knows

  static std::size_t bytes(int ranks) { return 24 + 8 * static_cast<std::size_t>(ranks); }
};

// REQUIRES PairNote::bytes() of room, for as many ranks as note.steps has.
void write_note(const PairNote& note, std::span<std::byte> room);
// Reads the note of a group of `ranks` ranks into `note`, which is reused, and returns what follows it. WireError if it
// is no such note.
std::span<const std::byte> read_note(std::span<const std::byte> mail, int ranks, PairNote& note);

}  // namespace sotto
