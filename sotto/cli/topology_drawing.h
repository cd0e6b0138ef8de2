#pragma once

#include <string>

#include "sotto/topology/topology.h"

namespace sotto {

// Ranks on a circle for each round side by side, and arrows from who sends to who gets: an SVG document. At most
// `most_drawn_rounds` rounds, said where there are more.
inline constexpr std::size_t most_drawn_rounds = 12;
std::string to_svg(const Topology& topology);

}  // namespace sotto
