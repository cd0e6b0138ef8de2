#include "sotto/data/source.h"

#include <fmt/format.h>

#include "sotto/core/error.h"

namespace sotto {

void check_source(const DataOptions& options, std::string_view name, std::string_view files) {
  if (!files.empty() && options.data_dir.empty()) {
    throw ConfigError(
        fmt::format("{} needs {}, the folder that holds {}", named("data", name), named("data-dir"), files));
  }
  if (files.empty() && !options.data_dir.empty()) {
    throw ConfigError(
        fmt::format("{}: {} is made, and reads no files; leave it out", named("data-dir", options.data_dir), name));
  }
  if (!files.empty() && options.data_seed != DataOptions{}.data_seed) {
    throw ConfigError(fmt::format("{}: {} is read from files, and has no seed; leave it out",
                                  named("data-seed", std::to_string(options.data_seed)), name));
  }
}

}  // namespace sotto
