#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace sotto {

// What workers and servers tell each other beside coded messages. Little-endian (docs/algorithms/parameter_server.md).
struct ServerNote {
  enum class Kind : std::uint16_t {
    gradient = 1,  // to a server, behind the messages of a step: that is all of it
    idle,          // to its own and the first server, from a rank that only serves: this step is over
    rest,          // to a server: no more comes until all rest
    model,         // from a server, before the messages: the answer to a gradient
    told,          // the answer to `idle`
    waiting,       // to a rank that rests: not all do yet
    rested,        // all do
  };
  static constexpr std::size_t bytes = 48;
  static constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

  Kind kind = Kind::gradient;
  std::uint16_t generation = 0;
  std::uint64_t step = 0;      // of the worker; of `rest`: the next one
  std::uint64_t version = 0;   // updates that the model has had, at which a gradient was taken or which is sent
  std::uint64_t stop = never;  // the step behind which all stop; of a worker: behind which it would like to
  double rate = 0;             // learning rate and loss of a worker's step
  double loss = 0;
};

// Whether these bytes begin as a note does, and as no coded message.
bool is_note(std::span<const std::byte> bytes);
void write_note(const ServerNote& note, std::span<std::byte> room);
// The note at the front. WireError when there is none, or it is of another generation.
ServerNote read_note(std::span<const std::byte> bytes, std::uint16_t generation);

}  // namespace sotto
