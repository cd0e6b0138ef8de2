#pragma once

#include <string>
#include <string_view>

namespace sotto {

// A topology as users say it, as the sentence that make_topology() takes: a path that ends in ".toml" becomes what the
// file says, any other text stays as it is. For each round the file has one of these:
//   [[round]]
//   sends_to = [[1, 2], [0], [0]]                                 # the ranks that rank 0 sends to, those of rank 1, ..
//   [[round]]
//   matrix = [[0.5, 0.5, 0.5], [0.25, 0.5, 0], [0.25, 0, 0.5]]    # the share that a row's rank then has of a column's
// FileError when it cannot be read, ConfigError that begins with `where` and names the line when it says anything else.
std::string topology_sentence(std::string_view where, const std::string& text);

}  // namespace sotto
