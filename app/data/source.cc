#include "app/data/source.h"

#include <fmt/format.h>

namespace sotto {
namespace {

std::int64_t wanted_size(const DataOptions& options, Split split) {
  return split == Split::train ? options.train_size : options.test_size;
}

}  // namespace

void check_source(const DataOptions& options, std::string_view name, std::string_view files) {
  if (!files.empty() && options.data_dir.empty()) {
    throw ConfigError(
        fmt::format("{} needs {}, the folder that holds {}", named("data", name), named("data-dir"), files));
  }
  if (files.empty()) {
    const auto refuse = [&](std::string_view option, const std::string& said, const std::string& usual) {
      if (said == usual) return;
      throw ConfigError(fmt::format("{}: {} is made, and reads no files; leave it out", named(option, said), name));
    };
    const DataOptions usual;
    refuse("data-dir", options.data_dir, usual.data_dir);
    refuse("tokens", options.tokens, usual.tokens);
    refuse("languages", options.languages, usual.languages);
    refuse("test-set", options.test_set, usual.test_set);
  }
  if (!files.empty() && options.data_seed != DataOptions{}.data_seed) {
    throw ConfigError(fmt::format("{}: {} is read from files, and has no seed; leave it out",
                                  named("data-seed", std::to_string(options.data_seed)), name));
  }
}

void check_kind(const DataOptions& options, std::string_view kind) {
  const auto is_for = [&](std::string_view other, bool said, std::string_view option, const std::string& value) {
    if (!said || kind == other) return;
    throw ConfigError(fmt::format("{}: is for {}, and these data are {}", named(option, value), other, kind));
  };
  const DataOptions usual;
  is_for("images", options.augment != "none" && options.augment != usual.augment, "augment", options.augment);
  is_for("images", options.image_size.has_value(), "image-size", format_optional(options.image_size));
  is_for("images", options.strict, "strict", "");
  is_for("images", options.data_threads.has_value(), "data-threads", format_optional(options.data_threads));
  is_for("text", options.tokens != usual.tokens, "tokens", options.tokens);
  is_for("sentences", options.languages != usual.languages, "languages", options.languages);
  is_for("sentences", options.test_set != usual.test_set, "test-set", options.test_set);
}

std::string size_option(Split split, std::int64_t wanted) {
  return named(split == Split::train ? "train-size" : "test-size", std::to_string(wanted));
}

std::size_t chosen_size(const DataOptions& options, Split split, std::size_t available, std::string_view source) {
  const std::int64_t wanted = wanted_size(options, split);
  if (wanted == 0) return available;
  if (wanted < 0 || static_cast<std::uint64_t>(wanted) > available) {
    throw ConfigError(fmt::format("{}: {} holds {} {} examples (0 takes them all)", size_option(split, wanted), source,
                                  available, split == Split::train ? "training" : "test"));
  }
  return static_cast<std::size_t>(wanted);
}

std::size_t generated_size(const DataOptions& options, Split split, std::size_t usual_train, std::size_t usual_test) {
  const std::int64_t wanted = wanted_size(options, split);
  if (wanted == 0) return split == Split::train ? usual_train : usual_test;
  if (wanted < 0 || wanted > DataOptions::most_examples) {
    throw ConfigError(fmt::format("{} must be in [0, {}]", size_option(split, wanted), DataOptions::most_examples));
  }
  return static_cast<std::size_t>(wanted);
}

}  // namespace sotto
