#pragma once

#include <memory>

#include "app/data/rows.h"

namespace sotto {

// Rows of two classes, -1 and 1. Each row draws about 100 of a million features, the first ones most often, like words
// in texts. Its class is the side of a hidden plane on which it lies, but for one row in twenty it is the other. The
// same on every machine.
std::unique_ptr<Rows> open_made_rows(const DataOptions& options, Split split);

}  // namespace sotto
