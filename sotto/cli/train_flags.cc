#include "sotto/cli/train_flags.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "sotto/model/model.h"

namespace sotto {

void add_train_flags(Flags& flags, TrainOptions& options) {
  const std::array<FlagGroup, 5> groups{{
      {"What is trained", {"model", "data", "data-dir", "train-size", "test-size", "data-seed", "seed"}},
      {"What is sent",
       {"codec", "codec-start-after", "codec-warmup", "aggregator", "group-size", "average-batch-norm", "algorithm",
        "topology", "mixing", "peers-per-step", "node-size", "final-average", "overlap", "buckets", "codec-threads"}},
      {"Ranks and network",
       {"ranks", "backend", "master", "interface", "address", "deadline", "disk-deadline", "link", "threads"}},
      {"Training",
       {"epochs", "max-steps", "batch-size", "test-batch-size", "accumulate", "optimiser", "lr", "lr-scale", "momentum",
        "nesterov", "weight-decay", "average-iterates", "schedule", "horizon", "lr-shrinkage", "lr-shrink-every"}},
      {"Run folder", {}},
  }};
  flags.alias("model", "network");
  flags.alias("data", "dataset");
  flags.add(options, groups);
  TrainFlagOptions own;
  flags.add(own, std::span(groups).last(1));
}

void assign_train_flags(const Flags& flags, TrainOptions& options) {
  TrainFlagOptions own;
  flags.assign(own);
  options.ranks = 0;
  if (!own.config.empty()) from_toml(own.config, options);
  TrainOptions said = options;
  flags.assign(said);
  // A resumed run goes on as it began, but for what is said now.
  const auto record = std::filesystem::path(said.train_dir) / "config.toml";
  std::error_code missing;
  if (said.resume && own.config.empty() && std::filesystem::exists(record, missing)) {
    from_toml(record.string(), options);
  }
  flags.assign(options);
}

std::string model_list() {
  std::string text = "\nModels:\n";
  for (const ModelEntry& model : model_table()) {
    text += fmt::format("  {:<12} {}; lr {}, momentum {}\n", model.name, model.summary, model.default_lr,
                        model.default_momentum);
  }
  return text;
}

}  // namespace sotto
