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

void refuse_image_options(const DataOptions& options, std::string_view what) {
  const auto refuse = [&](const std::string& option) {
    throw ConfigError(fmt::format("{}: is for images, and these data are {}", option, what));
  };
  if (options.augment != "none" && options.augment != "auto") refuse(named("augment", options.augment));
  if (options.image_size) refuse(named("image-size", std::to_string(*options.image_size)));
}

}  // namespace sotto
