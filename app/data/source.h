#pragma once

#include <memory>
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

// ConfigError when `options` do not fit a data set with this `name` and `files`, as in SourceEntry.
void check_source(const DataOptions& options, std::string_view name, std::string_view files);

// ConfigError if an option for data of another kind is set. `kind` is "images", "text", "sentences" or "rows of
// numbers".
void check_kind(const DataOptions& options, std::string_view kind);

// Opens options.data; `auto` means the first entry. ConfigError for an unknown name or options that do not fit;
// FileError, which names the file, for a bad file.
template <class Data>
std::unique_ptr<Data> open_source(const Table<SourceEntry<Data>>& table, const DataOptions& options, Split split) {
  const SourceEntry<Data>& entry = options.data == "auto" ? *table.begin() : table.require("data", options.data);
  check_source(options, entry.name, entry.files);
  return entry.open(options, split);
}

}  // namespace sotto
