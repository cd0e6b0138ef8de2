#pragma once

#include <span>
#include <string_view>

#include "sotto/comm/communicator.h"

namespace sotto {

// A law that every communicator must keep, whatever its backend and number of ranks. All ranks run it; it throws when
// it does not hold.
struct Law {
  std::string_view name;
  void (*check)(Communicator& communicator);
};
std::span<const Law> laws();
// Checks all laws, one after the other; the exception names the law that does not hold.
void check_laws(Communicator& communicator);

}  // namespace sotto
