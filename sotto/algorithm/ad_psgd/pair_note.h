#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sotto {

// What stands in front of the model, if any, in each message of averaging pairs (ad_psgd): little-endian,
//   kind u8 | 0 u8 | generation u16 | number u32 | meeting u64 | end u64 | steps u64 of each rank
struct PairNote {
  enum class Kind : std::uint8_t {
    request,   // the sender's model is behind it, and the receiver's is to come back
    answer,    // that is it
    news,      // nothing but what it says of ranks
    question,  // the receiver is to send news
  };

  Kind kind = Kind::news;
  std::uint16_t generation = 0;      // of the group of ranks
  std::uint32_t number = 0;          // of the exchange, as its active rank counts; of request and answer
  std::uint64_t meeting = 0;         // the last that the sender has come to
  std::uint64_t end = 0;             // the steps behind which the sender can end; 0: it knows of no wish to
  std::vector<std::uint64_t> steps;  // that each rank has made, as far as the sender knows

  static std::size_t bytes(int ranks) { return 24 + 8 * static_cast<std::size_t>(ranks); }
};

// REQUIRES PairNote::bytes() of room for as many steps.
void write_note(const PairNote& note, std::span<std::byte> room);
// Of so many ranks, and what stands behind it; `note` is reused. WireError when it is none.
std::span<const std::byte> read_note(std::span<const std::byte> mail, int ranks, PairNote& note);

}  // namespace sotto
