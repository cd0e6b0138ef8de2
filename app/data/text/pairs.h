#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/data/source.h"
#include "app/data/text/vocabulary.h"

namespace sotto {

// Sentences and their translations.
struct Pairs {
  std::vector<std::vector<std::uint16_t>> sources, targets;  // without marks
  std::vector<std::string> references;                       // the targets as they were written
  std::shared_ptr<const Vocabulary> vocabulary;              // of both languages

  std::size_t size() const { return sources.size(); }
  std::string meaning() const { return vocabulary->meaning(); }
};

using PairEntry = SourceEntry<Pairs>;
const Table<PairEntry>& pair_table();

// See open_source(). At most train_size or test_size pairs.
std::unique_ptr<Pairs> open_pairs(const DataOptions& options, Split split);

// The two languages of options.languages, valid as long as that text. ConfigError unless it names two.
struct PairLanguages {
  std::string_view source, target;
};
PairLanguages pair_languages(const DataOptions& options);

// The vocabulary file in the folder of parallel text. make_pair_vocabulary() makes it from the training text of both
// languages. FileError for a bad or missing text, ConfigError if the text is too short for `size`.
std::filesystem::path pair_vocabulary_file(const std::filesystem::path& folder);
void make_pair_vocabulary(const DataOptions& options, std::int64_t size);

// Sentences of 3 to 10 generated words. The translation has the words in the opposite order, each replaced by its own
// word of another language. The same on every machine.
std::unique_ptr<Pairs> open_made_pairs(const DataOptions& options, Split split);

}  // namespace sotto
