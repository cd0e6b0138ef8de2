#include "sotto/data/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>

#include "sotto/core/error.h"
#include "sotto/data/made_text.h"
#include "sotto/data/unpack.h"

namespace sotto {
namespace {

// The bytes of the split's own file, if options.data_dir is a folder. Of a single file, the last tenth is for tests, as
// is the custom for Shakespeare's text (Karpathy, 2015).
std::unique_ptr<Text> open_bytes(const DataOptions& options, Split split) {
  std::filesystem::path path = options.data_dir;
  std::error_code unknown;
  const bool folder = std::filesystem::is_directory(path, unknown);
  if (folder) {
    path = find_packed(path / (split == Split::train ? "train.txt" : "test.txt"));
    if (path.empty() && split == Split::test) path = find_packed(std::filesystem::path(options.data_dir) / "valid.txt");
    if (path.empty()) {
      throw FileError(fmt::format("{}: there is no {} in it, also not as .gz or .xz", options.data_dir,
                                  split == Split::train ? "train.txt" : "test.txt or valid.txt"));
    }
  }
  const std::vector<std::byte> bytes = read_unpacked(path);
  if (bytes.empty()) throw FileError(path.string() + ": it is empty");
  const std::size_t cut = bytes.size() * 9 / 10;
  const std::size_t begin = folder || split == Split::train ? 0 : cut;
  const std::size_t end = folder || split == Split::test ? bytes.size() : cut;
  auto text = std::make_unique<Text>();
  std::transform(bytes.begin() + static_cast<std::ptrdiff_t>(begin), bytes.begin() + static_cast<std::ptrdiff_t>(end),
                 std::back_inserter(text->tokens), [](std::byte b) { return std::to_integer<std::uint16_t>(b); });
  return text;
}

constexpr std::array entries{
    TextEntry{"made-text", "made sentences of made words, as bytes, 1,000,000 + 100,000", "", open_made_text},
    TextEntry{"text", "a text of your own, as bytes",
              "train.txt, and test.txt or valid.txt; or a single text, of which the last tenth is for tests; packed by "
              "gzip or xz, or not",
              open_bytes},
};
constexpr Table<TextEntry> texts("data set", entries);

}  // namespace

const Table<TextEntry>& text_table() { return texts; }

std::unique_ptr<Text> open_text(const DataOptions& options, Split split) {
  refuse_image_options(options, "text");
  return open_source(texts, options, split);
}

}  // namespace sotto
