#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "sotto/comm/communicator.h"

namespace sotto {

// Returns rank 0's text on all ranks. Collective.
inline std::string broadcast_text(std::string text, Communicator& communicator) {
  std::uint64_t size = text.size();
  communicator.broadcast(std::as_writable_bytes(std::span(&size, 1)), 0);
  text.resize(size);
  communicator.broadcast(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

}  // namespace sotto
