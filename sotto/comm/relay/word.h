#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace sotto {

// Names a door at a relay, or a guest that waits for it: random, so that nobody guesses it.
using RelayId = std::array<std::byte, 16>;

RelayId new_relay_id();

// What a relay (relay.h) and its ranks say to each other: always 28 bytes, little-endian. They are a magic word (u32),
// the kind (u8), the version (u8), two zero bytes, the number of a door or a guest, and the CRC-32 of all these (u32).
// A relay reads nothing else.
struct RelayWord {
  enum class Kind : std::uint32_t {
    ask = 1,     // are you there? The relay says `here`, with the same number. After a first word it then closes
    serve = 2,   // by a rank: guests who call this door are announced on this connection
    call = 3,    // by a peer: connect me with whoever serves this door
    take = 4,    // by a rank: this connection is for that guest
    leave = 5,   // by a rank that has served: nobody will serve this door again
    here = 6,    // the answer to `ask`
    guest = 7,   // to the rank that serves: a guest with this number waits
    joined = 8,  // to caller and taker: from now on each gets the other one's bytes
    gone = 9,    // to a caller: whoever served this door has ended
    absent = 10  // to a caller: nobody serves this door at present
  };
  static constexpr std::size_t bytes = 28;

  Kind kind = Kind::ask;
  RelayId id{};
};
using RelayRoom = std::array<std::byte, RelayWord::bytes>;

RelayRoom write_relay_word(const RelayWord& word);
RelayWord read_relay_word(const RelayRoom& data);  // WireError if it is something else, of another version, or damaged
// Whether the first `bytes` bytes of `data` may begin a word of this version. Words of other versions may be shorter.
bool may_be_relay_word(const RelayRoom& data, std::size_t bytes);

}  // namespace sotto
