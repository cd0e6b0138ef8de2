#include "app/data/text/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "app/data/text/text_lines.h"
#include "app/data/text/vocabulary.h"
#include "app/data/unpack.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

constexpr std::uint16_t end_of_line = 3;  // the mark that ends a sentence

// One split of a text, with the file that contains it.
struct Half {
  std::string file;
  std::vector<std::byte> all;
  std::size_t begin = 0, end = 0;  // of the half
  std::string_view text() const { return as_text(all).substr(begin, end - begin); }
};

bool is_folder(const std::filesystem::path& path) {
  std::error_code unknown;
  return std::filesystem::is_directory(path, unknown);
}

// Reads the split's own file if options.data_dir is a folder. The last tenth of a single file is for tests, as is usual
// for Shakespeare's text (Karpathy, 2015).
Half read_half(const DataOptions& options, Split split) {
  std::filesystem::path path = options.data_dir;
  const bool folder = is_folder(path);
  if (folder) {
    path = find_packed(path / (split == Split::train ? "train.txt" : "test.txt"));
    if (path.empty() && split == Split::test) path = find_packed(std::filesystem::path(options.data_dir) / "valid.txt");
    if (path.empty()) {
      throw FileError(fmt::format("{}: there is no {} in it, also not as .gz or .xz", options.data_dir,
                                  split == Split::train ? "train.txt" : "test.txt or valid.txt"));
    }
  }
  Half half{path.string(), read_unpacked(path)};
  if (half.all.empty()) throw FileError(path.string() + ": it is empty");
  std::size_t cut = half.all.size() * 9 / 10;
  if (options.tokens != "bytes") {  // no character may be cut
    const auto continues = [&] { return (half.all[cut] & std::byte{0xC0}) == std::byte{0x80}; };
    for (int i = 0; i < 3 && cut > 0 && continues(); ++i) --cut;
  }
  half.begin = folder || split == Split::train ? 0 : cut;
  half.end = folder || split == Split::test ? half.all.size() : cut;
  return half;
}

struct Line {
  std::string_view text;
  bool ends = false;  // whether a line break follows; only the last line of a half may lack it
};

// FileError for a line that is no UTF-8.
std::vector<Line> lines_of(const Half& half) {
  std::vector<Line> lines;
  auto number = 1 + std::count(half.all.begin(), half.all.begin() + static_cast<std::ptrdiff_t>(half.begin),
                               static_cast<std::byte>('\n'));
  for (std::string_view rest = half.text(); !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    lines.push_back({rest.substr(0, end), end < rest.size()});
    if (!is_utf8(lines.back().text)) {
      throw FileError(fmt::format("{}:{}: not UTF-8, which sentencepiece wants", half.file, number));
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return lines;
}

std::unique_ptr<Text> open_own_text(const DataOptions& options, Split split) {
  const Half half = read_half(options, split);
  auto text = std::make_unique<Text>();
  if (options.tokens == "bytes") {
    const std::string_view bytes = half.text();
    std::ranges::transform(bytes, std::back_inserter(text->tokens),
                           [](char c) { return static_cast<std::uint8_t>(c); });
    return text;
  }
  const std::filesystem::path model = text_vocabulary_file(options.data_dir);
  if (!path_exists(model)) {
    throw FileError(
        fmt::format("{}: there is no such file; `sotto data prepare {}` makes it", model.string(), options.data));
  }
  const auto vocabulary = open_sentencepiece(model);
  text->vocabulary = vocabulary->size();
  text->meaning = vocabulary->meaning();
  for (const Line& line : lines_of(half)) {
    for (const std::string_view part : parts_of_line(line.text)) vocabulary->append(part, text->tokens, text->bytes);
    if (!line.ends) continue;
    text->tokens.push_back(end_of_line);
    text->bytes.push_back(1);
  }
  return text;
}

constexpr std::array entries{
    TextEntry{"made-text", "generated sentences of generated words, as bytes, 1,000,000 + 100,000", "", open_made_text},
    TextEntry{"text", "a text of your own, as bytes or tokens of sentencepiece",
              "train.txt, and test.txt or valid.txt; or a single text, of which the last tenth is for tests; packed by "
              "gzip or xz, or not; for tokens of sentencepiece a model, which `sotto data prepare` makes",
              open_own_text},
};
constexpr Table<TextEntry> texts("data set", entries);

}  // namespace

const Table<TextEntry>& text_table() { return texts; }

std::unique_ptr<Text> open_text(const DataOptions& options, Split split) {
  return open_source(texts, "text", options, split);
}

std::filesystem::path text_vocabulary_file(const std::filesystem::path& data_dir) {
  if (is_folder(data_dir)) return data_dir / "sentencepiece.model";
  return data_dir.string() + ".sentencepiece.model";
}

void make_text_vocabulary(const DataOptions& options, std::int64_t size) {
  DataOptions as_lines = options;
  as_lines.tokens = "sentencepiece";
  const Half half = read_half(as_lines, Split::train);
  std::vector<std::string> lines;
  for (const Line& line : lines_of(half)) {
    if (!line.text.empty()) lines.emplace_back(line.text);
  }
  if (lines.empty()) throw FileError(half.file + ": it has no line with a word to learn from");
  train_sentencepiece(lines, size, Keeps::bytes, text_vocabulary_file(options.data_dir));
}

}  // namespace sotto
