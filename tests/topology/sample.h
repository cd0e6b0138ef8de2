#pragma once

#include <string>

#include "sotto/topology/table.h"

namespace sotto::test {

// An expression for an entry of the table that suits `ranks` ranks: `hosts` has hosts of two ranks, and `graph` sends
// to the next rank.
inline std::string sample(const TopologyEntry& entry, int ranks) {
  std::string name(entry.name);
  if (name == "hosts") return name + (ranks == 1 ? "(1)" : "(2)");
  if (name != "graph" || ranks == 1) return name;
  std::string lists;
  for (int rank = 0; rank < ranks; ++rank) lists += (rank > 0 ? "; " : "") + std::to_string((rank + 1) % ranks);
  return name + "(" + lists + ")";
}

}  // namespace sotto::test
