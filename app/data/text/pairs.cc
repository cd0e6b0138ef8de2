#include "app/data/text/pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "app/data/text/text_lines.h"
#include "app/data/unpack.h"
#include "sotto/core/file.h"
#include "sotto/core/text.h"

namespace sotto {
namespace {

struct Lines {
  std::string file;
  std::vector<std::string> all;
};

Lines read_lines(const DataOptions& options, std::string_view stem, std::string_view language) {
  const std::filesystem::path file =
      require_packed(std::filesystem::path(options.data_dir) / fmt::format("{}.{}", stem, language));
  const std::vector<std::byte> bytes = read_unpacked(file);
  Lines result{file.string(), {}};
  TextLines lines(as_text(bytes), result.file);
  for (std::string_view line; lines.next(line);) {
    if (trimmed(line).empty()) lines.fail("an empty line");
    if (!is_utf8(line)) lines.fail("not UTF-8");
    result.all.emplace_back(line);
  }
  if (result.all.empty()) throw FileError(result.file + ": it is empty");
  return result;
}

// The lines of both languages, which are pairs.
std::array<Lines, 2> read_pairs(const DataOptions& options, std::string_view stem) {
  const PairLanguages languages = pair_languages(options);
  std::array pairs{read_lines(options, stem, languages.source), read_lines(options, stem, languages.target)};
  if (pairs[0].all.size() != pairs[1].all.size()) {
    throw FileError(fmt::format("{} has {} lines, and {} has {}; they must be pairs", pairs[0].file,
                                pairs[0].all.size(), pairs[1].file, pairs[1].all.size()));
  }
  return pairs;
}

std::unique_ptr<Pairs> open_parallel(const DataOptions& options, Split split) {
  auto [source, target] = read_pairs(options, split == Split::train ? "train" : std::string_view(options.test_set));
  const std::filesystem::path model = pair_vocabulary_file(options.data_dir);
  if (!path_exists(model)) {
    throw FileError(fmt::format("{}: there is no such file; `sotto data prepare {}` makes it from the training text",
                                model.string(), options.data));
  }
  auto pairs = std::make_unique<Pairs>();
  pairs->vocabulary = open_sentencepiece(model);
  const std::size_t count = chosen_size(options, split, source.all.size(), source.file);
  for (std::size_t i = 0; i < count; ++i) {
    pairs->sources.push_back(pairs->vocabulary->encode(source.all[i]));
    pairs->targets.push_back(pairs->vocabulary->encode(target.all[i]));
    pairs->references.push_back(std::move(target.all[i]));
  }
  return pairs;
}

constexpr std::array pair_entries{
    PairEntry{"made-pairs",
              "generated sentences and their translations by a small dictionary, 20,000 + 500 or any other size", "",
              open_made_pairs},
    PairEntry{"parallel", "sentences and their translations, a line each",
              "train.de and train.en, test.de and test.en (or as the options languages and test-set say), packed by "
              "gzip or xz, "
              "or not; and sentencepiece.model, which `sotto data prepare` makes",
              open_parallel},
};
constexpr Table<PairEntry> pair_sets("data set", pair_entries);

}  // namespace

const Table<PairEntry>& pair_table() { return pair_sets; }

std::unique_ptr<Pairs> open_pairs(const DataOptions& options, Split split) {
  return open_source(pair_sets, "sentences", options, split);
}

PairLanguages pair_languages(const DataOptions& options) {
  const std::string_view said = options.languages;
  const std::size_t dash = said.find('-');
  if (dash == 0 || dash == std::string_view::npos || dash + 1 == said.size()) {
    throw ConfigError(fmt::format("{}: say from which language to which, as de-en, the endings of the files",
                                  named("languages", said)));
  }
  const PairLanguages two{said.substr(0, dash), said.substr(dash + 1)};
  if (two.source == two.target) {
    throw ConfigError(fmt::format("{}: the two are one; say from which language to which", named("languages", said)));
  }
  return two;
}

std::filesystem::path pair_vocabulary_file(const std::filesystem::path& folder) {
  return folder / "sentencepiece.model";
}

void make_pair_vocabulary(const DataOptions& options, std::int64_t size) {
  auto [lines, translations] = read_pairs(options, "train");
  std::ranges::move(translations.all, std::back_inserter(lines.all));
  train_sentencepiece(lines.all, size, Keeps::words, pair_vocabulary_file(options.data_dir));
}

}  // namespace sotto
