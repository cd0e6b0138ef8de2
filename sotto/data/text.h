#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sotto/data/source.h"

namespace sotto {

// Text as a row of tokens, each below `vocabulary`.
struct Text {
  std::vector<std::uint16_t> tokens;
  std::int64_t vocabulary = 256;
};

using TextEntry = SourceEntry<Text>;
const Table<TextEntry>& text_table();

// As open_source(). train_size and test_size are left to those who know how long an example is.
std::unique_ptr<Text> open_text(const DataOptions& options, Split split);

}  // namespace sotto
