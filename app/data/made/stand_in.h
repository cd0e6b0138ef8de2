#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "app/data/options.h"

namespace sotto {

// Files with generated examples in the format of a data set. The reader of the real files reads them, too.

// Writes such files to options.data_dir, which is made if needed, and returns their paths. train_size and test_size are
// the numbers of examples (for a text: of bytes); 0: as many as in the generated data sets. The bytes are the same on
// every machine. ConfigError for a data set without files, or if a size is set and the format has a fixed one;
// FileError if such a file exists already: nothing is overwritten.
std::vector<std::filesystem::path> make_stand_in(const DataOptions& options);

// The names that make_stand_in() knows.
std::vector<std::string_view> stand_in_names();

}  // namespace sotto
