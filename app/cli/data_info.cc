#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "app/cli/commands.h"
#include "app/cli/flags.h"
#include "app/data/download.h"
#include "app/data/images/dataset.h"
#include "app/data/made/stand_in.h"
#include "app/data/pictures/picture_pack.h"
#include "app/data/rows/rows.h"
#include "app/data/text/pairs.h"
#include "app/data/text/text.h"
#include "app/launch/console.h"
#include "app/report/text_table.h"
#include "sotto/core/error.h"
#include "sotto/core/text.h"

namespace sotto {
namespace {

void line(std::string_view what, const std::string& text) { fmt::print("{:<10}  {}\n", what, text); }

std::string_view name_of(Split split) { return split == Split::train ? "train" : "test"; }

// How often each label occurs, as "0: 98, 1: 112"; only the most frequent labels if there are many.
template <class Label, class Name>
std::string counts_text(const std::map<Label, std::size_t>& counts, Name&& name_of) {
  constexpr std::size_t most = 12;
  std::vector<std::pair<Label, std::size_t>> shown(counts.begin(), counts.end());
  if (counts.size() > most) {
    std::ranges::stable_sort(shown, std::greater<>(), &std::pair<Label, std::size_t>::second);
    shown.resize(most);
  }
  std::vector<std::string> texts;
  texts.reserve(shown.size());
  for (const auto& [label, count] : shown) texts.push_back(fmt::format("{}: {}", name_of(label), count));
  return fmt::format("{}{}", fmt::join(texts, ", "),
                     counts.size() > most ? fmt::format(", and {} rarer ones", counts.size() - most) : "");
}

void describe(const Dataset& images, Split split) {
  const auto [channels, height, width] = images.shape();
  std::map<std::int64_t, std::size_t> counts;
  for (std::size_t i = 0; i < images.size(); ++i) ++counts[images.label(i)];
  line(name_of(split), fmt::format("{} images of {}x{}x{} (channels, height, width), {} of {} classes", images.size(),
                                   channels, height, width, counts.size(), images.classes()));
  line("", counts_text(counts, [&](std::int64_t label) { return images.class_name(label); }));
  for (const std::string& remark : images.remarks()) line("", spelled(remark, flag_spelling));
}

void describe(const Text& text, Split split) {
  line(name_of(split), fmt::format("{} tokens of {}", text.tokens.size(), text.vocabulary));
}

void describe(const Rows& rows, Split split) {
  std::map<float, std::size_t> counts;
  for (const float label : rows.labels) ++counts[label];
  line(name_of(split),
       fmt::format("{} rows of {} feature{}, {:.1f} of them not 0 in a row, {} different labels", rows.size(),
                   rows.features, rows.features == 1 ? "" : "s",
                   static_cast<double>(rows.columns.size()) / static_cast<double>(rows.size()), counts.size()));
  line("", counts_text(counts, [](float label) { return fmt::format("{}", label); }));
  if (const std::string meaning = rows.meaning(); meaning.find(':') != meaning.npos) line("", meaning);
  if (!rows.remark.empty()) line("", rows.remark);
}

void describe(const Pairs& pairs, Split split) {
  const auto mean = [](const std::vector<std::vector<std::uint16_t>>& sentences) {
    std::size_t tokens = 0;
    for (const auto& sentence : sentences) tokens += sentence.size();
    return static_cast<double>(tokens) / static_cast<double>(sentences.size());
  };
  line(name_of(split), fmt::format("{} pairs of sentences, {:.1f} and {:.1f} tokens long, of {}", pairs.size(),
                                   mean(pairs.sources), mean(pairs.targets), pairs.vocabulary->size()));
}

void print_files(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code unknown;
  if (fs::is_regular_file(folder, unknown)) {
    for (const fs::path& file : {fs::path(folder), test_rows_beside(folder)}) {
      if (file.empty()) continue;
      const auto size = static_cast<double>(fs::file_size(file, unknown));
      line(file == folder ? "files" : "", fmt::format("{}  {}", file.string(), bytes_text(size)));
    }
    return;
  }
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder, unknown)) {
    if (!entry.is_regular_file(unknown)) continue;
    const auto size = static_cast<double>(entry.file_size(unknown));
    found.push_back(fmt::format("{}  {}", entry.path().lexically_relative(folder).string(), bytes_text(size)));
  }
  std::ranges::sort(found);
  constexpr std::size_t most = 20;
  if (found.empty()) line("files", "none in " + folder);
  for (std::size_t i = 0; i < std::min(found.size(), most); ++i) line(i == 0 ? "files" : "", found[i]);
  if (found.size() > most) line("", fmt::format("and {} more", found.size() - most));
}

// Prints everything if the data set is in this table; returns whether it is.
template <class Data>
bool describe_from(const Table<SourceEntry<Data>>& table, std::string_view kind, const DataOptions& options,
                   std::unique_ptr<Data> (*open)(const DataOptions& options, Split split)) {
  const SourceEntry<Data>* entry = table.find(options.data);
  if (entry == nullptr) return false;
  line("name", options.data);
  line("kind", std::string(kind));
  line("what", std::string(entry->summary));
  if (!entry->files.empty()) line("needs", std::string(entry->files));
  if (const DownloadSource* source = find_download(options.data)) {
    line("source", fmt::format("{}; `sotto data get {}` downloads it", source->address, options.data));
    line("licence", std::string(source->licence));
  }
  if (std::ranges::count(stand_in_names(), options.data) > 0) {
    line("stand-in", fmt::format("`sotto data make {}` writes one", options.data));
  }
  if (!entry->files.empty() && options.data_dir.empty()) {
    line("files", "say where they are with --data-dir");
    return true;
  }
  if (!options.data_dir.empty()) {
    check_source(options, entry->name, entry->files);
    print_files(options.data_dir);
  }
  for (const Split split : {Split::train, Split::test}) describe(*open(options, split), split);
  if (entry->name == "folder" && std::filesystem::is_regular_file(options.data_dir)) {
    flush_output();
    Console console;
    check_picture_pack(options.data_dir, [&](std::size_t done, std::size_t all) {
      console.progress(fmt::format("checking: {} of {} pictures", done, all));
      return true;
    });
  }
  return true;
}

}  // namespace

std::vector<std::string_view> set_names() {
  std::vector<std::string_view> all;
  for (const auto& names : {dataset_table().names(), text_table().names(), pair_table().names(), row_table().names()}) {
    all.insert(all.end(), names.begin(), names.end());
  }
  return all;
}

int run_data_info(std::span<const std::string> arguments) {
  DataOptions options;
  Flags flags("data info", "Says what a data set is, and what is in its files.", "");
  flags.add_positional("name", options.data, "data set, see `sotto data list`", true);
  const Flags::Visit visit = [&](OptionVisitor& v) {
    v.option("data-dir", options.data_dir,
             "folder of the data set's files; for text or rows it may be the one file, for pictures a pack");
    v.option("data-seed", options.data_seed, "seed of generated data", Bounds::at_least(0));
    v.option("languages", options.languages,
             "for parallel text: from which language to which, by the endings of the files' names");
    v.option("test-set", options.test_set, "for parallel text: how the names of the test files begin");
  };
  if (!flags.read(arguments, visit)) return 0;
  if (describe_from(dataset_table(), "images", options, open_dataset) ||
      describe_from(text_table(), "text", options, open_text) ||
      describe_from(pair_table(), "pairs", options, open_pairs) ||
      describe_from(row_table(), "rows", options, open_rows)) {
    return 0;
  }
  throw ConfigError(unknown_name("data set", options.data, set_names()));
}

}  // namespace sotto
