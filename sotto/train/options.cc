#include "sotto/train/options.h"

#include <fmt/ranges.h>
#include <toml++/toml.h>
#include <algorithm>
#include <cctype>
#include <limits>
#include <optional>
#include <sstream>
#include <type_traits>
#include <utility>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/aggregate/hierarchical.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/transport.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/table.h"
#include "sotto/task/table.h"
#include "sotto/topology/mixing.h"
#include "sotto/topology/table.h"
#include "sotto/topology/topology_file.h"
#include "sotto/train/buckets.h"
#include "sotto/train/capture.h"
#include "sotto/train/optimiser.h"

namespace sotto {

void TrainOptions::visit(OptionVisitor& v) {
  std::vector<std::string_view> aggregators;  // those that are asked for beside a sentence
  for (const AggregatorEntry& entry : aggregator_table()) {
    if (entry.method == nullptr) aggregators.push_back(entry.name);
  }
  const Bounds count{1, 1e9};  // products of two of them fit into 64 bits
  const Bounds natural{0, 1e15};
  v.option(
      "task", task,
      fmt::format("what is trained: a model, its loss and its metrics: {}", fmt::join(names_of(task_table()), ", ")));
  v.option("model", model, "network: see the models below");
  data.visit(v);
  v.option("codec", codec,
           "what is sent of a gradient: a preset, auto, or `memory | transform | select | quantise | code`");
  v.option("codec-start-after", codec_start_after,
           "steps at the beginning that send everything, as floats; -1: the optimiser's own (onebit-adam's), else none",
           {-1, 1e9});
  v.option("codec-warmup", codec_warmup,
           "larger ratios of the codec in the first epochs: exponential, coefficient(c), list(25%/6%/1%); empty: none");
  v.option("aggregator", aggregator,
           fmt::format("how ranks agree on the mean: auto, {}", fmt::join(aggregators, ", ")));
  v.option("group-size", group_size,
           "ranks of each group of the aggregator hierarchical, which follow each other; 0: those of a host",
           {0, 65535});
  v.option("average-batch-norm", average_batch_norm,
           "average batch-norm statistics over the ranks in every step; otherwise for evaluation alone");
  v.option("algorithm", algorithm, "how ranks come to one model: see the algorithms below");
  v.option(
      "topology", topology,
      "who exchanges with whom, for algorithms that exchange models: see `sotto topology list`, or a .toml file with "
      "one of your own; empty: the algorithm's own (exponential; choco: ring; ad_psgd: bipartite_exponential)");
  v.option(
      "peers-per-step", peers_per_step,
      "peers of a rank in a round from an epoch on, in place of the topology's own number: 0:1,10:2; empty: always "
      "that");
  v.option("mixing", mixing,
           "and with what shares: see `sotto topology list`; empty: the topology's own, else uniform");
  v.option(
      "node-size", node_size,
      "ranks that share a model: their gradients are averaged, and the first of them exchanges models with those of "
      "other nodes; 0: the ranks of a host; 1: each rank has a model of its own",
      {0, 65535});
  v.option("final-average", final_average, "end with the exact mean of the ranks' models on every rank");
  v.option("ranks", ranks, "number of processes to start on this machine", {1, 65535});

  v.option("epochs", epochs, "passes over the training data", count);
  v.option("max-steps", max_steps, "stop after this many steps; 0: after the epochs", natural);
  v.option("batch-size", batch_size, "examples a rank and micro-step", count);
  v.option("test-batch-size", test_batch_size, "examples at a time when evaluating", count);
  v.option("accumulate", accumulate, "micro-steps whose gradients are averaged before an exchange", count);
  v.option("optimiser", optimiser,
           "what makes a step of the mean; auto: that of the preset or algorithm, or sgd; see the list below");
  v.option("lr", lr, "learning rate; 0: the optimiser's or the model's own", Bounds::at_least(0));
  v.option("lr-scale", lr_scale, "the rate is that of 256 examples: multiply it by those of a step of all ranks / 256");
  v.option("momentum", momentum, "momentum of the optimiser; -1: the model's own, or none where the codec makes it",
           {-1, 1, false, true});
  v.option("nesterov", nesterov, "Nesterov's momentum");
  v.option("weight-decay", weight_decay,
           "pull of the parameters towards zero; -1: the optimiser's own (adamw's), else none",
           {-1, std::numeric_limits<double>::infinity(), false, true});
  v.option(
      "average-iterates", average_iterates,
      "evaluate mem-SGD's weighted mean of all iterates, with this tau (elements / elements sent); 0: the last one",
      Bounds::at_least(0));
  v.option("schedule", schedule, "learning rate over time: constant, step(..), cosine(..), warmup(..) | ..");
  v.option("horizon", horizon, "steps that the schedule is stretched over; 0: those of the epochs", natural);
  v.option("lr-shrinkage", lr_shrinkage, "multiply the rate by this every --lr-shrink-every steps", Bounds::share());
  v.option("lr-shrink-every", lr_shrink_every, "steps between two shrinkages", count);
  v.option("seed", seed, "seed of everything random", Bounds::at_least(0));

  v.option("overlap", overlap, "send while this rank computes: buckets while backward goes on; no bit depends on it");
  v.option("buckets", buckets,
           "what is exchanged at once: layer (the tensors of each module), whole (all), or tensors of at most a size "
           "together, as 25MB, one at least");
  v.option("backend", backend, "what carries messages: " + transport_choices());
  v.option("link", link,
           "emulate a link: 100mbit or 1gbit,5ms, or the links and slow ranks of a FILE.toml; empty: none");
  v.option("deadline", deadline, "seconds until an operation that a peer does not answer fails", {1, 86400});
  v.option("disk-deadline", disk_deadline, "seconds until waiting for the files of another rank fails", {1, 1e6});
  v.option("threads", threads, "compute threads a rank; 0: cores / ranks", natural);
  v.option("codec-threads", codec_threads, "threads a rank that encode and decode; no bit depends on them", {1, 256});
  v.option("interface", interface, "network interface that the transport uses");
  v.option("address", address, "address that the transport binds; empty: the one that routes to the master");
  v.option("master", master, "host:port where ranks meet; empty: chosen, or the starter's");

  v.option("train-dir", train_dir, "run folder; empty: a new one under runs/");
  v.option("checkpoint-every", checkpoint_every, "steps between checkpoints that are kept; 0: only at the end",
           natural);
  v.option("checkpoint-minutes", checkpoint_minutes,
           "minutes between checkpoints, of which the last two are kept, beside those of --checkpoint-every; 0: none",
           Bounds::at_least(0));
  v.option("eval-freq", eval_freq, "steps between evaluations; 0: at the end of each epoch", natural);
  v.option("until", until,
           "METRIC=VALUE: end when an evaluation reaches that, as accuracy=0.97 or loss=0.1; empty: after the epochs");
  v.option("keep-best", keep_best,
           "write a checkpoint of each evaluation that is the best one so far, and keep the last of these");
  v.option("resume", resume, "go on from the newest checkpoint of --train-dir");
  v.option("check-replicas", check_replicas, "steps between comparisons of all ranks' parameters; 0: never", natural);
  v.option("capture", capture,
           "every=N,dir=DIR: the first rank that trains writes its gradient to DIR at every N-th step; empty: none");
}

namespace {

void lower(std::string& text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
}

// Writes a line for every option, in the order of visit().
class TomlWriter final : public OptionVisitor {
 public:
  void option(std::string_view name, bool& value, std::string_view /*help*/) override {
    line(name, value ? "true" : "false");
  }
  void option(std::string_view name, std::int64_t& value, std::string_view /*help*/, Bounds /*bounds*/) override {
    line(name, std::to_string(value));
  }
  void option(std::string_view name, double& value, std::string_view /*help*/, Bounds /*bounds*/) override {
    line(name, format_double(value));  // the library would print 0.05 as 0.050000000000000003
  }
  void option(std::string_view name, std::string& value, std::string_view /*help*/,
              std::initializer_list<std::string_view> /*choices*/) override {
    std::ostringstream quoted;
    quoted << toml::value<std::string>(value);
    line(name, quoted.str());
  }
  std::string text;

 private:
  void line(std::string_view name, const std::string& value) { text += std::string(name) + " = " + value + "\n"; }
};

// Takes options out of a TOML table; what is left over in the end is unknown.
class TomlReader final : public OptionVisitor {
 public:
  TomlReader(std::string path, toml::table table) : path_(std::move(path)), table_(std::move(table)) {}

  void option(std::string_view name, bool& value, std::string_view /*help*/) override {
    take<bool>(name, "true or false", value);
  }
  void option(std::string_view name, std::int64_t& value, std::string_view /*help*/, Bounds bounds) override {
    if (take<std::int64_t>(name, "a whole number", value)) check(name, static_cast<double>(value), bounds);
  }
  void option(std::string_view name, double& value, std::string_view /*help*/, Bounds bounds) override {
    if (take<double>(name, "a number", value)) check(name, value, bounds);
  }
  void option(std::string_view name, std::string& value, std::string_view /*help*/,
              std::initializer_list<std::string_view> /*choices*/) override {
    take<std::string>(name, "text in quotes", value);
  }
  void finish() const {
    if (table_.empty()) return;
    const std::string name(table_.begin()->first.str());
    throw ConfigError("--config " + path_ + ": " + unknown_name("option", name, known_));
  }

 private:
  // The library would also read 1 as true, or 2.0 as 2; only a whole number as a number is meant.
  template <class T>
  static std::optional<T> exactly(const toml::node& node) {
    if constexpr (std::is_same_v<T, double>) {
      return node.is_number() ? node.value<double>() : std::nullopt;
    } else {
      return node.value_exact<T>();
    }
  }

  template <class T>
  bool take(std::string_view name, const char* wanted, T& value) {
    known_.push_back(name);
    const auto found = table_.find(name);
    if (found == table_.end()) return false;
    const auto read = exactly<T>(found->second);
    if (!read) throw ConfigError("--config " + path_ + ": " + std::string(name) + " must be " + wanted);
    value = *read;
    table_.erase(found);
    return true;
  }
  void check(std::string_view name, double value, const Bounds& bounds) const {
    if (bounds.contains(value)) return;
    throw ConfigError("--config " + path_ + ": " + std::string(name) + " must be in " + bounds.text());
  }

  std::string path_;
  toml::table table_;
  std::vector<std::string_view> known_;
};

// Refuses what the algorithm would leave unused, and says what it uses. A bad topology is told before the ranks meet.
void check_algorithm(TrainOptions& options) {
  const AlgorithmEntry& entry = algorithm_entry("algorithm", options.algorithm);
  idle_ranks("algorithm", options.algorithm, static_cast<int>(options.ranks));  // for its errors
  const auto unused = [&](bool said, std::string_view flag, std::string_view why) {
    if (said) throw ConfigError(fmt::format("{}: `{}` {}", flag, entry.name, why));
  };
  if (options.node_size != 1) {
    if (options.node_size == 0) {
      throw ConfigError("--node-size 0: all ranks are on this host; say how many of them make a node");
    }
    const std::string problem =
        problem_of_nodes("algorithm", options.algorithm, options.node_size, static_cast<int>(options.ranks));
    if (!problem.empty()) throw ConfigError("--node-size: " + problem);
    unused(options.average_iterates > 0, "--average-iterates",
           "between nodes takes the steps of a node on one rank alone");
  }
  if (entry.uses_topology) {
    const int ranks = static_cast<int>(options.ranks / options.node_size);
    options.topology = options.topology.empty() ? entry.topology : topology_sentence("topology", options.topology);
    if (options.mixing.empty()) {
      options.mixing = default_mixing(make_topology("topology", options.topology, ranks));
    }
    check_graph("algorithm", options.algorithm, options.topology, options.mixing, ranks);
    if (!options.peers_per_step.empty() && entry.changes_peers) {
      for (const auto& phase : peer_phases("peers-per-step", options.peers_per_step, options.topology, ranks, 1)) {
        check_graph("algorithm", options.algorithm, phase.topology, options.mixing, ranks);
      }
    }
  } else {
    unused(!options.topology.empty(), "--topology", "exchanges with no neighbours");
    unused(!options.mixing.empty(), "--mixing", "exchanges with no neighbours");
  }
  unused(!options.peers_per_step.empty() && !entry.changes_peers, "--peers-per-step",
         "has no peers whose number may change; push_sum has");
  if (!entry.uses_aggregator) {
    unused(options.aggregator != "auto", "--aggregator", "has none");
    unused(!options.codec_warmup.empty(), "--codec-warmup", "has one codec for the whole run");
    unused(options.codec_start_after > 0, "--codec-start-after", "has one codec for the whole run");
  }
  unused(entry.replicated && options.final_average, "--final-average", "has the same model on all ranks as it is");
  unused(!entry.replicated && options.check_replicas > 0, "--check-replicas", "has other models on each rank");
}

void check_transport(const TrainOptions& options) {
  const Transport& transport = chosen_transport(options);
  if (!options.interface.empty() && !options.address.empty()) {
    throw ConfigError("--interface and --address: say one of them");
  }
  const auto refuse = [&](std::string_view flag, const std::string& value, std::string_view Transport::*instead) {
    if (value.empty() || (transport.*instead).empty()) return;
    std::vector<std::string_view> others;
    for (const Transport& other : transports()) {
      if ((other.*instead).empty()) others.push_back(other.name);
    }
    throw ConfigError(fmt::format("{}: only for {}; with --backend {} {}", flag, fmt::join(others, " and "),
                                  transport.name, transport.*instead));
  };
  refuse("--interface", options.interface, &Transport::own_networks);
  refuse("--address", options.address, &Transport::own_networks);
  refuse("--master", options.master, &Transport::own_meeting);
}

}  // namespace

const Transport& chosen_transport(const TrainOptions& options) {
  if (const Transport* transport = find_entry(transports(), options.backend)) return *transport;
  throw ConfigError("--backend: " + unknown_name("backend", options.backend, names_of(transports())));
}

void resolve(TrainOptions& options) {
  lower(options.model);
  lower(options.data.data);
  chosen_optimiser(options);  // for its errors
  read_target("until", options.until, task_entry("task", options.task).metrics);
  check_transport(options);
  const Capture capture(options.capture);  // refuses what it cannot read
  check_algorithm(options);
  check_buckets(options);
  if (options.group_size > 0) {
    const AggregatorSpec aggregator = read_aggregator(parse_sentence("aggregator", options.aggregator));
    if (!group_of(aggregator)) {
      throw ConfigError("--group-size: only the aggregator hierarchical has groups");
    }
    options.aggregator = with_group(aggregator, options.group_size).text();
    options.group_size = 0;  // said once, with the aggregator
  }
  if (options.lr_shrinkage != 1) {
    if (options.schedule != "constant") {
      throw ConfigError("--lr-shrinkage: contradicts --schedule; write it there, as step(every=" +
                        std::to_string(options.lr_shrink_every) + ", factor=" + format_double(options.lr_shrinkage) +
                        ")");
    }
    options.schedule = "step(every=" + std::to_string(options.lr_shrink_every) +
                       ", factor=" + format_double(options.lr_shrinkage) + ")";
    options.lr_shrinkage = 1;  // said once, in the schedule
    options.lr_shrink_every = TrainOptions{}.lr_shrink_every;
  }
  if (options.lr_shrink_every != TrainOptions{}.lr_shrink_every) {
    throw ConfigError("--lr-shrink-every: says nothing without --lr-shrinkage");
  }
  if (options.resume && options.train_dir.empty()) {
    throw ConfigError("--resume: say which run with --train-dir");
  }
}

std::unique_ptr<Task> make_task(const TrainOptions& options, Share share) {
  TaskSetup setup{.model = options.model, .data = options.data, .seed = static_cast<std::uint64_t>(options.seed)};
  setup.share = share;
  setup.batch = static_cast<std::size_t>(options.batch_size);
  setup.test_batch = static_cast<std::size_t>(options.test_batch_size);
  return task_entry("task", options.task).make(setup);
}

Recipe recipe_of(const TrainOptions& options) { return read_recipe(options.codec, options.aggregator); }

std::string to_toml(TrainOptions options) {
  TomlWriter writer;
  options.visit(writer);
  return std::move(writer.text);
}

void from_toml(const std::string& path, TrainOptions& options) {
  const std::string text = read_text(path);
  try {
    TomlReader reader(path, toml::parse(text, path));
    options.visit(reader);
    reader.finish();
  } catch (const toml::parse_error& error) {
    const auto at = error.source().begin;
    throw ConfigError("--config " + path + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": " +
                      std::string(error.description()));
  }
}

}  // namespace sotto
