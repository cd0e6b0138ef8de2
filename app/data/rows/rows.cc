#include "app/data/rows/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "app/data/unpack.h"

namespace sotto {
namespace {

constexpr std::string_view files_of(bool csv) {
  return csv ? "train.csv and test.csv; or a single file, and the same with .t at its end, else every tenth row is for "
               "tests; packed by gzip or xz, or not. The label is the column label, target, class or y, else the first"
             : "train.libsvm and test.libsvm; or a single file, and the same with .t at its end, else every tenth row "
               "is for tests; packed by gzip or xz, or not";
}

constexpr std::array row_entries{
    RowEntry{"made-rows",
             "generated rows of two classes, 1,000,000 features, about 100 of them in a row, 50,000 + 10,000", "",
             open_made_rows},
    RowEntry{"libsvm", "rows as `label index:value ..`, indices from 1", files_of(false), open_libsvm},
    RowEntry{"csv", "rows of numbers with commas between them", files_of(true), open_csv},
};
constexpr Table<RowEntry> row_sets("data set", row_entries);

// The rows with number 9, 19, 29 and so on if `these`; otherwise all others.
Rows every_tenth(const Rows& all, bool these) {
  Rows some;
  some.layout = all.layout;
  some.label_at = all.label_at;
  some.remark = all.remark;
  some.features = all.features;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if ((i % 10 == 9) != these) continue;
    const Row row = all.at(i);
    some.columns.insert(some.columns.end(), row.columns.begin(), row.columns.end());
    some.values.insert(some.values.end(), row.values.begin(), row.values.end());
    some.end_row(row.label);
  }
  return some;
}

void keep_first(Rows& rows, std::size_t count) {
  rows.labels.resize(count);
  rows.ends.resize(count);
  rows.columns.resize(count == 0 ? 0 : rows.ends.back());
  rows.values.resize(rows.columns.size());
}

std::vector<Rows::SeenLabel> seen_in(const Rows& train, const Rows& test) {
  std::vector<Rows::SeenLabel> all = train.seen_labels;
  for (const Rows::SeenLabel& seen : test.seen_labels) {
    const auto found = std::ranges::find(all, seen.label, &Rows::SeenLabel::label);
    if (found != all.end()) {
      found->rows += seen.rows;
    } else if (all.size() < 3) {
      all.push_back(seen);
    }
  }
  return all;
}

std::filesystem::path unpacked_test_file(std::filesystem::path file) {
  std::string name = file.filename().string();
  for (const std::string_view packed : {".gz", ".xz"}) {
    if (name.ends_with(packed)) name.resize(name.size() - packed.size());
  }
  return file.replace_filename(name + ".t");
}

// Whether the columns of a layout have no names.
bool is_nameless(std::string layout) {
  constexpr std::string_view mark = " (label)";
  if (const std::size_t at = layout.find(mark); at != std::string::npos) layout.erase(at, mark.size());
  return layout.find_first_not_of(',') == std::string::npos;
}

std::string columns_text(const std::string& layout) {
  if (!is_nameless(layout)) return fmt::format("the columns `{}`", layout);
  return fmt::format("no line of names and {} columns", 1 + std::ranges::count(layout, ','));
}

}  // namespace

std::filesystem::path test_rows_beside(std::filesystem::path file) {
  return find_packed(unpacked_test_file(std::move(file)));
}

Row Rows::at(std::size_t index) const {
  const std::size_t begin = index == 0 ? 0 : ends.at(index - 1), count = ends.at(index) - begin;
  return {std::span(columns).subspan(begin, count), std::span(values).subspan(begin, count), labels[index]};
}

void Rows::end_row(float label) {
  if (columns.size() > (ends.empty() ? 0 : ends.back())) {
    features = std::max(features, std::size_t{1} + columns.back());
  }
  ends.push_back(columns.size());
  labels.push_back(label);
}

void Rows::end_row(float label, const TextLines& at) {
  end_row(label);
  const auto found = std::ranges::find(seen_labels, label, &SeenLabel::label);
  if (found != seen_labels.end()) {
    ++found->rows;
  } else if (seen_labels.size() < 3) {
    seen_labels.push_back({label, 1, at.place()});
  }
}

std::string Rows::meaning() const {
  const std::string count = fmt::format("{} feature{}", features, features == 1 ? "" : "s");
  return is_nameless(layout) ? count : fmt::format("{}: {}", count, layout);
}

void Rows::fit(std::string_view meaning, std::string_view where) {
  std::size_t wanted = 0;
  std::from_chars(meaning.data(), meaning.data() + meaning.size(), wanted);
  if (features > wanted)
    throw ConfigError(fmt::format("{}: {} features, and the model has {}", where, features, wanted));
  features = wanted;
}

const Table<RowEntry>& row_table() { return row_sets; }

std::unique_ptr<Rows> open_rows(const DataOptions& options, Split split) {
  return open_source(row_sets, "rows of numbers", options, split);
}

std::unique_ptr<Rows> open_row_files(const DataOptions& options, Split split, std::string_view kind,
                                     void (*read)(std::string_view text, const std::string& file, Rows& rows)) {
  const std::filesystem::path path = options.data_dir;
  std::error_code unknown;
  const bool folder = std::filesystem::is_directory(path, unknown);
  const auto in_folder = [&](std::string_view stem) { return require_packed(path / fmt::format("{}.{}", stem, kind)); };
  const std::filesystem::path train_file = folder ? in_folder("train") : path;
  const std::filesystem::path test_file = folder ? in_folder("test") : test_rows_beside(path);
  const auto rows_of = [&](const std::filesystem::path& file) {
    const std::vector<std::byte> bytes = read_unpacked(file);
    Rows rows;
    read(as_text(bytes), file.string(), rows);
    if (rows.size() == 0) throw FileError(file.string() + ": it holds no rows");
    return rows;
  };
  Rows train = rows_of(train_file);
  Rows test = test_file.empty() ? every_tenth(train, true) : rows_of(test_file);
  if (!test_file.empty() && train.layout != test.layout) {
    throw FileError(fmt::format("{}: it has {}, and {} has {}; both need the same", test_file.string(),
                                columns_text(test.layout), train_file.string(), columns_text(train.layout)));
  }
  std::vector<Rows::SeenLabel> seen = seen_in(train, test);
  if (test_file.empty()) train = every_tenth(train, false);
  auto rows = std::make_unique<Rows>(std::move(split == Split::train ? train : test));
  const Rows& other = split == Split::train ? test : train;
  rows->features = std::max(rows->features, other.features);
  if (rows->size() == 0) {  // a single file of fewer than ten rows has no test row
    throw FileError(
        fmt::format("{}: too few rows for tests: every tenth is for them, and there are {}; ten are needed, "
                    "or a file {} with rows for tests",
                    path.string(), other.size(), unpacked_test_file(path).string()));
  }
  rows->seen_labels = std::move(seen);
  keep_first(*rows, chosen_size(options, split, rows->size(), (folder ? path : train_file).string()));
  return rows;
}

}  // namespace sotto
