#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sotto/topology/topology.h"

namespace sotto {

// Topologies that a user writes. The text has one list per rank, of the ranks that it sends to: "1 2; 0; 0". A list may
// give each receiver a share ("1:0.25 2:0.25; 0:0.5; 0:0.5"); the rank keeps the rest. Several rounds are separated by
// " / " and take turns.

// Parses such a text into its rounds. ConfigError, without a place in the text, when it is malformed.
std::vector<Graph> given_graphs(std::string_view text, int ranks);

// The topology whose rounds take turns; its expression is "graph(sends_to=...)". ConfigError when there is no round,
// when they differ in the number of ranks, when a rank keeps no share, when only some edges have shares, or when the
// graph of all rounds together is not strongly connected.
Topology given_topology(std::vector<Graph> rounds);

// Converts a .toml file to the text that given_graphs() reads. The file has one of these tables for each round:
//   [[round]]
//   sends_to = [[1, 2], [0], [0]]                                 # the receivers of rank 0, of rank 1, ..
//   [[round]]
//   matrix = [[0.5, 0.5, 0.5], [0.25, 0.5, 0], [0.25, 0, 0.5]]    # row i, column j: the share that j sends to i
// FileError when the file cannot be read; ConfigError, with the option and the line, when it holds anything else.
std::string read_topology_file(std::string_view option, const std::string& path);

}  // namespace sotto
