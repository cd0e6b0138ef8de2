#pragma once

#include <span>
#include <string_view>

#include "sotto/comm/communicator.h"

namespace sotto {

// What every communicator must do, whatever its backend and number of ranks: run by all ranks, throws when it does not
// hold.
struct Law {
  std::string_view name;
  void (*check)(Communicator& communicator);
};
std::span<const Law> laws();
// All of them, one after the other; what is thrown says which one does not hold.
void check_laws(Communicator& communicator);

}  // namespace sotto
