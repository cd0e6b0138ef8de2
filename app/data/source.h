#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "app/data/options.h"
#include "sotto/core/table.h"

namespace sotto {

// A line of a table of data sets. There is a table for each kind of data: labelled images, text.
template <class Data>
struct SourceEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view files;  // what data_dir must hold; empty when it needs none
  std::unique_ptr<Data> (*open)(const DataOptions& options, Split split);
};

// ConfigError if `options` do not fit the data set; `name` and `files` as in SourceEntry.
void check_source(const DataOptions& options, std::string_view name, std::string_view files);
// ConfigError if an option is set that only another kind of data has.
void check_kind(const DataOptions& options, std::string_view kind);

// The mark (core/error.h) of the option, `train-size` or `test-size`, with the value `wanted`; for errors.
std::string size_option(Split split, std::int64_t wanted);
// The number of examples of a split to use: the options' size, or all when it is 0. ConfigError, which names the option
// and `source`, when fewer are available.
std::size_t chosen_size(const DataOptions& options, Split split, std::size_t available, std::string_view source);
// The same for generated data: the usual number when the options' is 0. ConfigError when it is more than
// DataOptions::most_examples.
std::size_t generated_size(const DataOptions& options, Split split, std::size_t usual_train, std::size_t usual_test);

// Opens options.data; `auto` means the first entry. `kind` is "images", "text", "sentences" or "rows of numbers".
// ConfigError for an unknown name or options that do not fit; FileError, which names the file, for a bad file.
template <class Data>
std::unique_ptr<Data> open_source(const Table<SourceEntry<Data>>& table, std::string_view kind,
                                  const DataOptions& options, Split split) {
  check_kind(options, kind);
  const SourceEntry<Data>& entry = options.data == "auto" ? *table.begin() : table.require("data", options.data);
  check_source(options, entry.name, entry.files);
  return entry.open(options, split);
}

}  // namespace sotto
