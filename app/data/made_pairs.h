#pragma once

#include <memory>

#include "app/data/pairs.h"

namespace sotto {

// Sentences of 3 to 10 generated words. The translation has the words in the opposite order, each replaced by its own
// word of another language. The same on every machine.
std::unique_ptr<Pairs> open_made_pairs(const DataOptions& options, Split split);

}  // namespace sotto
