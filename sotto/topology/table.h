#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sotto/core/sentence.h"
#include "sotto/topology/topology.h"

namespace sotto {

// A line of the table of topologies. `id` is the number by which users of Stochastic Gradient Push know it; -1: it has
// none.
struct TopologyEntry {
  std::string_view name;
  int id;
  std::string_view summary;
  std::string_view paper;
  std::string (*help)();  // one line an option
  // ConfigError where there is none for so many ranks.
  Topology (*make)(const Sentence& sentence, const Call& call, int ranks);
};
std::span<const TopologyEntry> topology_table();

// `text` is one call, as "exponential(peers=2)", or an id: "5" is "exponential". ConfigError, which begins with
// `where`.
Topology make_topology(std::string_view where, std::string_view text, int ranks);

}  // namespace sotto
