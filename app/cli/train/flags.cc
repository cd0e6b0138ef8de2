#include "app/cli/train/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "adapters/c10d/transports.h"
#include "app/data/partition.h"
#include "app/launch/hosts.h"
#include "app/task/table.h"
#include "app/train/options/optimiser.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/transport.h"
#include "sotto/optim/clip.h"
#include "sotto/optim/optimiser.h"
#include "sotto/optim/schedule.h"

namespace sotto {

void add_train_flags(Flags& flags, TrainOptions& options) {
  std::array<FlagGroup, 5> groups{{
      {"What is trained",
       {"task", "model", "data", "data-dir", "train-size", "test-size", "data-seed", "augment", "image-size", "strict",
        "data-threads", "tokens", "languages", "test-set", "partition", "weights", "weights-except", "seed"}},
      {"What is sent",
       {"codec", "codec-start-after", "codec-warmup", "aggregator", "group-size", "average-batch-norm", "algorithm",
        "topology", "mixing", "peers-per-step", "node-size", "final-average", "overlap", "buckets", "codec-threads"}},
      {"Ranks and network", {"ranks", "backend", "master", "deadline", "disk-deadline", "link", "threads"}},
      {"Training",
       {"epochs",   "max-steps", "batch-size",   "test-batch-size", "accumulate", "amp",  "optimiser",        "lr",
        "lr-scale", "momentum",  "nesterov",     "weight-decay",    "group",      "clip", "average-iterates", "ema",
        "schedule", "horizon",   "lr-shrinkage", "lr-shrink-every"}},
      {"Run folder", {}},
  }};
  const std::vector<std::string> of_transport = names_of_options(TransportOptions());
  groups[2].options.insert(groups[2].options.end(), of_transport.begin(), of_transport.end());
  flags.alias("model", "network");
  flags.alias("data", "dataset");
  flags.alias("optimiser", "optimizer");
  flags.add(options, groups);
  TrainFlagOptions own;
  flags.add(own, std::span(groups).last(1));
}

void assign_train_flags(const Flags& flags, TrainOptions& options) {
  TrainFlagOptions own;
  flags.assign(own);
  options.ranks = 0;
  if (!own.config.empty()) from_toml(own.config, options, named("config", own.config));
  TrainOptions said = options;
  flags.assign(said);
  // A resumed run keeps its options, except for those that are given now.
  const auto record = std::filesystem::path(said.train_dir) / "config.toml";
  std::error_code missing;
  if (said.resume && own.config.empty() && std::filesystem::exists(record, missing)) {
    from_toml(record.string(), options);
  }
  flags.assign(options);
}

std::string train_lists() {
  std::string text;
  for (const TaskEntry& task : task_table()) {
    text += fmt::format("\nModels of the task {}:\n{}", task.name, task.models());
    text += "Metrics:\n";
    for (const Metric& metric : task.metrics) text += fmt::format("  {:<12} {}\n", metric.name, metric.summary);
  }
  text += "\nPartitions:\n";
  for (const PartitionEntry& entry : partition_table()) {
    text += fmt::format("  {:<12} {}{}\n", entry.name, entry.summary,
                        entry.paper.empty() ? "" : fmt::format("; {}", entry.paper));
  }
  text += partition_table().options() + "\nOptimisers:\n";
  for (const OptimiserEntry& entry : optimiser_table()) {
    text += fmt::format("  {:<12} {}; {}{}\n", entry.name, entry.summary,
                        fmt::join(names_of_options(entry.options()), ", "),
                        entry.default_lr == 0 ? "" : fmt::format("; lr {}", entry.default_lr));
  }
  text += "\nClipping, for --clip:\n";
  for (const ClipEntry& entry : clip_table()) text += fmt::format("  {:<12} {}\n", entry.name, entry.summary);
  text += "Options of both:\n" + help_options(ClipOptions{});
  text += "\nPrecisions, for --amp:\n";
  for (const AmpEntry& entry : amp_table()) text += fmt::format("  {:<12} {}\n", entry.name, entry.summary);
  text += amp_table().options();
  text += "\nSchedules, alone or as `warmup | ..`:\n";
  for (const ScheduleEntry& entry : schedule_table()) text += fmt::format("  {:<12} {}\n", entry.name, entry.summary);
  text += schedule_table().options() + "\nAlgorithms:\n";
  for (const AlgorithmEntry& entry : algorithm_table()) {
    text += fmt::format("  {:<16} {}; {}\n", entry.name, entry.summary, entry.paper);
  }
  text += algorithm_table().options() + aggregator_table().options();
  text += "\nTransports, for --backend:\n";
  for (const Transport& transport : transport_table()) {
    text += fmt::format("  {:<16} {}\n", transport.name, transport.summary);
  }
  return text;
}

Settings read_settings(const TrainOptions& options) {
  Settings settings;
  const std::vector<std::string> flags = to_flags(options);  // "--lr=0.1", or "--link", ""
  for (const std::string& flag : flags) {
    if (!flag.starts_with("--")) continue;
    const std::size_t equals = flag.find('=');
    settings.push_back({flag.substr(2, equals == std::string::npos ? equals : equals - 2),
                        equals == std::string::npos ? "" : flag.substr(equals + 1)});
  }
  return settings_of(std::move(settings));
}

std::string train_command(const Settings& settings) {
  const Settings usual = read_settings(TrainOptions{});
  std::string line = "sotto train";
  for (std::size_t i = 0; i < settings.size(); ++i) {
    if (settings[i] == usual[i]) continue;
    line += " " + quoted(fmt::format("--{}={}", settings[i].name, settings[i].value));
  }
  return line;
}

}  // namespace sotto
