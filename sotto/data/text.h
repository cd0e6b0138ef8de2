#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "sotto/data/source.h"

namespace sotto {

// Text as a row of tokens, each below `vocabulary`.
struct Text {
  std::vector<std::uint16_t> tokens;
  std::vector<std::uint32_t> bytes;  // of the text that each token stands for; empty: each is one
  std::int64_t vocabulary = 256;
};

using TextEntry = SourceEntry<Text>;
const Table<TextEntry>& text_table();

// As open_source(). train_size and test_size are left to those who know how long an example is.
std::unique_ptr<Text> open_text(const DataOptions& options, Split split);

// The vocabulary of a text of the user's own, which make_text_vocabulary() writes from its training half, beside it.
// FileError for a bad or missing file, ConfigError for a size that does not suit the text.
std::filesystem::path text_vocabulary_file(const std::filesystem::path& data_dir);
void make_text_vocabulary(const DataOptions& options, std::int64_t size);

}  // namespace sotto
