#pragma once

#include <memory>

#include "app/data/rows.h"

namespace sotto {

// Text rows `label index:value index:value ..`, as LIBSVM and its collection of data sets have them: indices from 1,
// ascending; # begins a comment. FileError, with file and line, for anything else, for labels and values that are not
// finite, and for indices above Rows::most_features.
std::unique_ptr<Rows> open_libsvm(const DataOptions& options, Split split);

}  // namespace sotto
