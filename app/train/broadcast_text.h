#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "sotto/comm/communicator.h"

namespace sotto {

// Returns the text of rank `from` on all ranks. Collective.
inline std::string broadcast_text(std::string text, Communicator& communicator, int from = 0) {
  std::uint64_t size = text.size();
  communicator.broadcast(std::as_writable_bytes(std::span(&size, 1)), from);
  text.resize(size);
  communicator.broadcast(std::as_writable_bytes(std::span(text)), from);
  return text;
}

}  // namespace sotto
