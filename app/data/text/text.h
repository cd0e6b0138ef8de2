#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/data/source.h"

namespace sotto {

// Text as a row of tokens, each below `vocabulary`.
struct Text {
  std::vector<std::uint16_t> tokens;
  std::vector<std::uint32_t> bytes;  // the number of bytes that each token stands for; empty: one each
  std::int64_t vocabulary = 256;
  std::string meaning{};  // Vocabulary::meaning()
};

using TextEntry = SourceEntry<Text>;
const Table<TextEntry>& text_table();

// See open_source(). The caller applies train_size and test_size, since it knows the length of an example.
std::unique_ptr<Text> open_text(const DataOptions& options, Split split);

// The vocabulary file of a user's text; make_text_vocabulary() makes it from the training split and writes it next to
// the text. FileError for a bad or missing file, ConfigError for a size that does not suit the text.
std::filesystem::path text_vocabulary_file(const std::filesystem::path& data_dir);
void make_text_vocabulary(const DataOptions& options, std::int64_t size);

// Sentences of a made-up language, drawn from options.data_seed. It has some hundred words of syllables. Each word has
// a few successors, of which the first is most frequent. A model learns spelling first, and then which words follow
// each other. The same on every machine.
std::unique_ptr<Text> open_made_text(const DataOptions& options, Split split);

}  // namespace sotto
