#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace sotto {

// What workers and servers tell each other besides coded messages. Little-endian:
//   0x7370 u16 | kind u16 | generation u16 | 0 u16 | step u64 | version u64 | stop u64 | rate f64 (from a server made
//   u64) | loss f64 (from a server 0)
struct ServerNote {
  enum class Kind : std::uint16_t {
    gradient = 1,  // to a server, after the messages of a step: they are complete
    idle,          // to its own and the first server, from a rank that only serves: this step is over
    rest,          // to a server: nothing more comes until all rest
    model,         // from a server, before the messages: the answer to a gradient
    told,          // the answer to `idle`
    waiting,       // to a rank that rests: not all do yet
    rested,        // to a rank that rests: all do
  };
  static bool is_of_server(Kind kind) { return kind >= Kind::model; }
  static constexpr std::size_t bytes = 48;
  static constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

  Kind kind = Kind::gradient;
  std::uint16_t generation = 0;
  std::uint64_t step = 0;      // of the worker; in `rest`: the next one
  std::uint64_t version = 0;   // number of updates of the model that is sent, or at which the gradient was taken
  std::uint64_t stop = never;  // the step after which all stop; from a worker: after which it wishes to stop
  double rate = 0;             // from a worker: the learning rate of its step
  double loss = 0;             // from a worker: that of its step
  std::uint64_t made = 0;      // from a server, in the place of the rate: steps that all workers have made together
};

// Whether these bytes begin as a note does, not as a coded message.
bool is_note(std::span<const std::byte> bytes);
void write_note(const ServerNote& note, std::span<std::byte> room);
// Reads the note at the front. WireError if there is none, or if it is of another generation.
ServerNote read_note(std::span<const std::byte> bytes, std::uint16_t generation);

}  // namespace sotto
