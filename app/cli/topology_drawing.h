#pragma once

#include <string>

#include "sotto/topology/topology.h"

namespace sotto {

// An SVG document with a circle of ranks for each round, side by side, and arrows from senders to receivers. It shows
// at most `most_drawn_rounds` rounds, and says so if the topology has more.
inline constexpr std::size_t most_drawn_rounds = 12;
std::string to_svg(const Topology& topology);

}  // namespace sotto
