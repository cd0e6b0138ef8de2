#pragma once

#include <memory>

#include "sotto/data/rows.h"

namespace sotto {

// Rows of two classes, -1 and 1: each draws about 100 of a million features, the first ones most often, as words are in
// texts, and belongs to the side of a hidden plane on which it lies; one row in twenty to the other. The same on every
// machine.
std::unique_ptr<Rows> open_made_rows(const DataOptions& options, Split split);

}  // namespace sotto
