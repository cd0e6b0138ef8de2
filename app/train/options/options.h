#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "app/data/options.h"
#include "sotto/comm/transport.h"
#include "sotto/core/options.h"

namespace sotto {

// Everything that decides what a run computes and where it writes, as the user gives it. visit() serves the flags of
// `sotto train`, its help, the TOML record in the run folder and its replay. read_choices() interprets the options.
struct TrainOptions {
  std::string task = "auto";
  std::string model = "auto";
  DataOptions data;
  std::string weights;
  std::string weights_except;
  std::string partition = "iid";
  std::string codec = "none";
  std::optional<std::int64_t> codec_start_after;
  std::optional<std::string> codec_warmup;
  std::string aggregator = "auto";
  std::optional<std::int64_t> group_size;
  bool average_batch_norm = false;
  std::string algorithm = "sync";
  std::optional<std::string> topology;
  std::optional<std::string> peers_per_step;
  std::optional<std::string> mixing;
  std::int64_t node_size = 1;
  bool final_average = false;
  std::int64_t ranks = 1;

  std::int64_t epochs = 3;
  std::optional<std::int64_t> max_steps;
  std::int64_t batch_size = 64;
  std::int64_t test_batch_size = 1000;
  std::int64_t accumulate = 1;
  std::string amp = "none";
  std::string optimiser = "auto";
  std::optional<double> lr;
  bool lr_scale = false;
  std::optional<double> momentum;
  bool nesterov = false;
  std::optional<double> weight_decay;
  std::optional<std::string> group;
  std::optional<std::string> clip;
  double average_iterates = 0;
  double ema = 0;
  std::string schedule = "constant";
  std::optional<std::int64_t> horizon;
  double lr_shrinkage = 1;
  std::int64_t lr_shrink_every = 50;
  std::int64_t seed = 1;

  bool overlap = true;
  std::string buckets = "1MiB";
  std::string backend = "tcp";
  std::optional<std::string> link;
  std::int64_t deadline = 60;
  std::int64_t disk_deadline = 1800;
  std::optional<std::int64_t> threads;
  std::int64_t codec_threads = 1;
  TransportOptions transport;
  std::string master;

  std::string train_dir;
  std::int64_t checkpoint_every = 0;
  double checkpoint_minutes = 10;
  std::optional<std::int64_t> eval_freq;
  std::optional<std::string> until;
  bool keep_best = true;
  bool resume = false;
  std::int64_t check_replicas = 0;
  std::optional<std::string> capture;
  std::int64_t measure_errors = 0;
  std::string csv_format = "own";
  std::string csv_tag;
  std::optional<std::string> tensorboard;
  std::optional<std::int64_t> metrics_port;

  void visit(OptionVisitor& v);
};

// Writes all options as TOML, one `name = value` per line, with the names of the flags; from_toml() reads them
// (ConfigError names file and key). `where`: how an error names the file, if not by its path.
std::string to_toml(TrainOptions options);
void from_toml(const std::string& path, TrainOptions& options, std::string where = "");

// Parses a size such as "25MB" or "1GiB"; returns bytes, or nothing if the text does not end in such a unit.
// ConfigError, which begins with `name`, if there is no positive number before the unit.
std::optional<double> parse_bytes(std::string_view name, std::string_view text);

}  // namespace sotto
