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

void check_kind(const DataOptions& options, std::string_view kind) {
  const auto refuse = [&](const std::string& option, std::string_view other) {
    throw ConfigError(fmt::format("{}: is for {}, and these data are {}", option, other, kind));
  };
  if (kind != "images") {
    if (options.augment != "none" && options.augment != "auto") refuse(named("augment", options.augment), "images");
    if (options.image_size) refuse(named("image-size", std::to_string(*options.image_size)), "images");
  }
  if (kind != "text" && options.tokens != DataOptions{}.tokens) refuse(named("tokens", options.tokens), "text");
}

}  // namespace sotto
