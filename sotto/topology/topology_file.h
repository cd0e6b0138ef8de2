#pragma once

#include <string>
#include <string_view>

namespace sotto {

// Converts a .toml file to the text that given_graphs() reads. The file has one of these tables for each round:
//   [[round]]
//   sends_to = [[1, 2], [0], [0]]                                 # the receivers of rank 0, of rank 1, ..
//   [[round]]
//   matrix = [[0.5, 0.5, 0.5], [0.25, 0.5, 0], [0.25, 0, 0.5]]    # row i, column j: the share that j sends to i
// FileError when the file cannot be read; ConfigError, with the option and the line, when it holds anything else.
std::string read_topology_file(std::string_view option, const std::string& path);

}  // namespace sotto
