#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "sotto/data/options.h"

namespace sotto {

// Files that look like those of a data set, with made examples in them: what reads the real ones reads these.

// Writes them to options.data_dir, which is made if needed, and returns their paths. train_size and test_size are the
// numbers of examples (of a text: bytes); 0: as many as the made data sets have. The bytes are the same on every
// machine. ConfigError for a data set that has no files, or whose form has a size of its own; FileError where such a
// file is there already: nothing is overwritten.
std::vector<std::filesystem::path> make_stand_in(const DataOptions& options);

// The names that make_stand_in() knows.
std::vector<std::string_view> stand_in_names();

}  // namespace sotto
