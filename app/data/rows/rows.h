#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/data/source.h"
#include "app/data/text/text_lines.h"
#include "sotto/core/examples.h"

namespace sotto {

// Labelled sparse rows, one after the other, in compressed form.
struct Rows {
  // Indices of columns are below this, so a linear model has about 2^28 weights at most.
  static constexpr std::size_t most_features = std::size_t{1} << 28;

  std::vector<std::size_t> ends;  // of each row, in `columns` and `values`
  std::vector<std::uint32_t> columns;
  std::vector<float> values;
  std::vector<float> labels;
  std::string layout{};      // what the columns of the file are, for formats in which this varies
  std::string label_at{};    // for such formats, where the label is: "the column `y`"
  std::string remark{};      // what the user ought to know about the file; empty: nothing
  std::size_t features = 0;  // of training and test rows together; the last feature may be 0 in all rows
  // The first different labels in the files of training and test rows, three at most: a classifier wants two.
  struct SeenLabel {
    float label = 0;
    std::size_t rows = 1;
    std::string place{};  // of the first row with it: file:line
  };
  std::vector<SeenLabel> seen_labels{};

  std::size_t size() const { return labels.size(); }
  // See Task::meaning(): "3 features", and their names if they have any.
  std::string meaning() const;
  // Adapts the rows to a model of data with this meaning(). Features that the rows lack are 0. ConfigError if the rows
  // have more features.
  void fit(std::string_view meaning, std::string_view where);
  Row at(std::size_t index) const;
  // Ends a row: it has the columns and values that were appended since the last row. REQUIRES ascending columns.
  void end_row(float label);
  void end_row(float label, const TextLines& at);  // the same; `at`: where the row is in its file
};

using RowEntry = SourceEntry<Rows>;
const Table<RowEntry>& row_table();

// See open_source(). At most train_size or test_size rows.
std::unique_ptr<Rows> open_rows(const DataOptions& options, Split split);

// The file of test rows that belongs to a file of training rows; empty if there is none.
std::filesystem::path test_rows_beside(std::filesystem::path file);

// The rows of options.data_dir. A folder has files train.KIND and test.KIND. If it is a file, a second file may have
// the test rows, named as in LIBSVM's collection (a9a and a9a.t); without it, every tenth row is for tests. All files
// may be packed by gzip or xz. `read` adds the rows of a text to `rows`; `file` is for its errors.
std::unique_ptr<Rows> open_row_files(const DataOptions& options, Split split, std::string_view kind,
                                     void (*read)(std::string_view text, const std::string& file, Rows& rows));

// Lines of numbers with commas between them. A first line with anything but numbers names the columns; the label is
// the first of label, target, class and y among these names, else the first column. FileError, with file and line, for
// a row with another number of columns, for cells that are empty or hold no finite number, and for a first line that
// numbers the columns.
std::unique_ptr<Rows> open_csv(const DataOptions& options, Split split);

// Text rows `label index:value index:value ..`, as LIBSVM and its collection of data sets have them: indices from 1,
// ascending; # begins a comment. FileError, with file and line, for anything else, for labels and values that are not
// finite, and for indices above Rows::most_features.
std::unique_ptr<Rows> open_libsvm(const DataOptions& options, Split split);

// Rows of two classes, -1 and 1. Each row draws about 100 of a million features, the first ones most often, like words
// in texts. A hidden plane divides the classes, except that one row in twenty has the other class. The same on every
// machine.
std::unique_ptr<Rows> open_made_rows(const DataOptions& options, Split split);

}  // namespace sotto
