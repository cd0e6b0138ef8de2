#pragma once

#include <string>
#include <string_view>

namespace sotto {

// The text of the graphs that a .toml file says, for given_graphs(). For each round the file has one of these:
//   [[round]]
//   sends_to = [[1, 2], [0], [0]]                                 # the ranks that rank 0 sends to, those of rank 1, ..
//   [[round]]
//   matrix = [[0.5, 0.5, 0.5], [0.25, 0.5, 0], [0.25, 0, 0.5]]    # the share that a row's rank then has of a column's
// FileError when it cannot be read; ConfigError that names the option and the line when it says anything else.
std::string read_topology_file(std::string_view option, const std::string& path);

}  // namespace sotto
