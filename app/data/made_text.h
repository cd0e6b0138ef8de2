#pragma once

#include <memory>

#include "app/data/text.h"

namespace sotto {

// Sentences from a language that options.data_seed makes: some hundred words of syllables, each followed by a few
// others, the first of them most often. A model learns spelling first, and then which words follow each other. The same
// on every machine.
std::unique_ptr<Text> open_made_text(const DataOptions& options, Split split);

}  // namespace sotto
