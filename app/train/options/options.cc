#include "app/train/options/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <array>

#include "adapters/c10d/transports.h"
#include "app/task/table.h"
#include "app/train/options/choices.h"
#include "app/train/options/optimiser.h"
#include "app/train/record/capture.h"
#include "sotto/aggregate/aggregator.h"
#include "sotto/aggregate/hierarchical.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/core/file.h"
#include "sotto/core/table.h"
#include "sotto/topology/mixing.h"
#include "sotto/topology/table.h"

namespace sotto {

void TrainOptions::visit(OptionVisitor& v) {
  std::vector<std::string_view> aggregators;  // those that can be named without a sentence
  for (const AggregatorEntry& entry : aggregator_table()) {
    if (entry.method == nullptr) aggregators.push_back(entry.name);
  }
  const Bounds count{1, 1e9};  // the product of two of them fits into 64 bits
  const Bounds natural{0, 1e15}, some{1, 1e15};
  v.option("task", task,
           fmt::format(
               "what is trained: a model, its loss and its metrics: {}; auto: the first that has this model and data",
               fmt::join(task_table().names(), ", ")));
  v.option("model", model,
           "network: see the models below; auto: the first one of the task, or of a task that has the data");
  data.visit(v);
  v.option(
      "weights", weights,
      "safetensors file of the first weights and statistics, by the names of the model; empty: drawn from the seed");
  v.option("weights-except", weights_except,
           "PATTERNS: tensors that keep their drawn values, such as `fc.*` for other classes than those of the file");
  v.option("partition", partition,
           "how labelled training examples are dealt to the ranks: iid, shards(n), dirichlet(alpha); see below");
  v.option("codec", codec,
           "what is sent of a gradient: a preset, auto, or `memory | transform | select | quantise | code`");
  v.option(
      "codec-start-after", codec_start_after,
      "steps at the beginning that send everything, as floats; auto: the optimiser's own (onebit-adam's), else none",
      {0, 1e9});
  v.option("codec-warmup", codec_warmup,
           "larger ratios of the codec in the first epochs: exponential, coefficient(c), list(25%/6%/1%); auto: none");
  v.option("aggregator", aggregator,
           fmt::format("how ranks agree on the mean: auto, {}", fmt::join(aggregators, ", ")));
  v.option("group-size", group_size,
           "ranks of each group of the aggregator hierarchical, with consecutive numbers; 0: those of a host; auto: as "
           "its own option says",
           {0, 65535});
  v.option("average-batch-norm", average_batch_norm,
           "average batch-norm statistics over the ranks in every step; otherwise for evaluation alone");
  v.option("algorithm", algorithm, "how ranks come to one model: see the algorithms below");
  v.option(
      "topology", topology,
      "who exchanges with whom, for algorithms that exchange models: see `sotto topology list`, or a .toml file with "
      "one of your own; auto: the algorithm's own (exponential; choco: ring; ad_psgd: bipartite_exponential)");
  v.option("peers-per-step", peers_per_step,
           "peers of a rank in a round from an epoch on, in place of the topology's own number: 0:1,10:2; auto: always "
           "that");
  v.option("mixing", mixing,
           "the share that each neighbour has in a rank's model: see `sotto topology list`; auto: the topology's own, "
           "else uniform");
  v.option(
      "node-size", node_size,
      "ranks that share a model: their gradients are averaged, and the first of them exchanges models with those of "
      "other nodes; 0: the ranks of a host; 1: each rank has its own model",
      {0, 65535});
  v.option("final-average", final_average, "end with the exact mean of the ranks' models on every rank");
  v.option("ranks", ranks, "number of processes to start on this machine", {1, 65535});

  v.option("epochs", epochs, "passes over the training data", count);
  v.option("max-steps", max_steps,
           "stop after this many steps, if the epochs are not over before; auto: after the epochs", some);
  v.option("batch-size", batch_size, "examples a rank and micro-step", count);
  v.option("test-batch-size", test_batch_size, "examples at a time when evaluating", count);
  v.option("accumulate", accumulate, "micro-steps whose gradients are averaged before an exchange", count);
  v.option("amp", amp,
           "the precision in which layers compute in training, by torch's autocast: none (floats), bf16, f16(scale); "
           "see below; "
           "parameters, gradients and what is sent stay floats");
  v.option("optimiser", optimiser,
           "how the mean becomes a step of the parameters; auto: as the preset or algorithm says, or sgd; see the list "
           "below");
  v.option("lr", lr, "learning rate; auto: the optimiser's or the model's own", Bounds::at_least(0));
  v.option("lr-scale", lr_scale,
           "the rate is for 256 examples: multiply it by the examples of a step of all ranks / 256");
  v.option("momentum", momentum, "momentum of the optimiser; auto: the model's own, or none where the codec makes it",
           {0, 1, false, true});
  v.option("nesterov", nesterov, "Nesterov's momentum");
  v.option("weight-decay", weight_decay,
           "pull of the parameters towards zero; auto: the optimiser's own (adamw's), else none", Bounds::at_least(0));
  v.option("group", group,
           "other options for the tensors whose names match, as `*.bias,*norm*: weight-decay=0; head.*: lr-scale=0.1`: "
           "options of the optimiser, and lr-scale; auto: none");
  v.option(
      "clip", clip,
      "clip gradients after averaging: norm(1) or value(1); each rank's own before: norm(1, when=before); auto: none");
  v.option(
      "average-iterates", average_iterates,
      "evaluate mem-SGD's weighted mean of all iterates, with this tau (elements / elements sent); 0: the last one",
      Bounds::at_least(0));
  v.option("ema", ema,
           "evaluate an exponential moving average of the iterates, with this decay (0.999); 0: the last one",
           {0, 1, false, true});
  v.option("schedule", schedule, "learning rate over time: see the schedules below");
  v.option("horizon", horizon, "steps that the schedule is stretched over; auto: those of the epochs", some);
  v.option("lr-shrinkage", lr_shrinkage, "multiply the rate by this every `lr-shrink-every` steps", Bounds::share());
  v.option("lr-shrink-every", lr_shrink_every, "steps between two shrinkages", count);
  v.option("seed", seed, "seed of everything random", Bounds::at_least(0));

  v.option("overlap", overlap, "send while this rank computes: buckets while backward continues; no bit depends on it");
  v.option("buckets", buckets,
           "which tensors are exchanged at once: layer (those of each module), whole (all), or as many as fit into a "
           "size such as 25MB, at least one");
  v.option("backend", backend,
           "what carries messages: " + transport_choices() + "; unsaid, gloo between hosts that share no `secret`");
  v.option("link", link,
           "emulate a link: 100mbit or 1gbit,5ms, or the links and slow ranks of a FILE.toml; auto: none");
  v.option("deadline", deadline,
           "seconds until an operation that a peer does not answer fails; ten times as long as a step takes, if that "
           "is more",
           {1, 86400});
  v.option("disk-deadline", disk_deadline, "seconds until waiting for the files of another rank fails", {1, 1e6});
  v.option("threads", threads, "compute threads a rank; auto: cores / ranks", {1, 4096});
  v.option("codec-threads", codec_threads, "threads a rank that encode and decode; no bit depends on them", {1, 256});
  transport.visit(v);
  v.option("master", master, "host:port where ranks meet; empty: chosen, or the starter's");

  v.option("train-dir", train_dir, "run folder; empty: a new one under runs/");
  v.option("checkpoint-every", checkpoint_every, "steps between checkpoints that are kept; 0: only at the end",
           natural);
  v.option("checkpoint-minutes", checkpoint_minutes,
           "minutes between checkpoints, of which the last two are kept, beside those of `checkpoint-every`; 0: none",
           Bounds::at_least(0));
  v.option("eval-freq", eval_freq, "steps between evaluations; auto: at the end of each epoch", some);
  v.option("until", until,
           "METRIC=VALUE: end when an evaluation reaches that, as accuracy=0.97 or loss=0.1; auto: after the epochs");
  v.option("keep-best", keep_best,
           "write a checkpoint of each evaluation that is the best one so far, and keep the last of these");
  v.option("resume", resume, "continue from the newest checkpoint of `train-dir`, with any number of ranks");
  v.option("check-replicas", check_replicas, "steps between comparisons of all ranks' parameters; 0: never", natural);
  v.option(
      "capture", capture,
      "every=N,dir=DIR: the first rank that trains writes its gradient to DIR at every N-th step; ranks=all: every "
      "rank does; memory=true: and what its memory holds back; format=npy or safetensors; limit=16GB: of DIR; auto: "
      "none");
  v.option("measure-errors", measure_errors,
           "steps between measurements of the codec on the gradient of the first rank that trains, without the memory, "
           "which go to codec_errors.csv and tensor_bytes.csv in the run folder; 0: never",
           natural);
  v.option(
      "csv-format", csv_format,
      "tables of the run folder: own (steps.csv and evaluations.csv alone), or sgp: beside them a file of each rank, "
      "TAGout_rR_nW.csv, as the programs of Stochastic Gradient Push write it",
      {"own", "sgp"});
  v.option("csv-tag", csv_tag, "TAG in the names of these files");
  v.option("tensorboard", tensorboard, "folder for TensorBoard's event files, which rank 0 writes; auto: none");
  v.option("metrics-port", metrics_port,
           "port of 127.0.0.1 where rank 0 serves its figures to Prometheus, as http://127.0.0.1:PORT/metrics; 0: any; "
           "auto: none",
           {0, 65535});
}

namespace {

// Writes a line for every option, in the order of visit().
class TomlWriter final : public OptionVisitor {
 public:
  void visit(const Option& option) override {
    const bool is_text = std::holds_alternative<std::string*>(option.value) ||
                         std::holds_alternative<std::optional<std::string>*>(option.value);
    std::ostringstream quoted;
    quoted << toml::value<std::string>(option.text());
    // The library would print the number 0.05 as 0.050000000000000003.
    text += fmt::format("{} = {}\n", option.name, is_text || !option.has_value() ? quoted.str() : option.text());
  }
  std::string text;
};

// Reads options from a TOML table; keys left at the end are unknown.
class TomlReader final : public OptionVisitor {
 public:
  TomlReader(std::string where, toml::table table) : where_(std::move(where)), table_(std::move(table)) {}

  void visit(const Option& option) override {
    known_.push_back(option.name);
    const auto found = table_.find(option.name);
    if (found == table_.end()) return;
    std::visit([&](auto* value) { take(*value, option, found->second); }, option.value);
    table_.erase(found);
  }
  void finish() const {
    if (table_.empty()) return;
    const std::string name(table_.begin()->first.str());
    throw ConfigError(where_ + ": " + unknown_name("option", name, known_));
  }

 private:
  template <class T>
  void take(T& value, const Option& option, const toml::node& node) const {
    const std::string where = fmt::format("{}: {}", where_, option.name);
    const auto read = exactly<T>(node);
    if (!read) throw ConfigError(fmt::format("{} must be {}", where, wanted<T>()));
    if constexpr (std::is_same_v<T, std::string>) {
      option.read(where, *read);
    } else {
      if (!option.bounds.contains(static_cast<double>(*read))) {
        throw ConfigError(fmt::format("{} must be in {}", where, option.bounds.text()));
      }
      value = *read;
    }
  }
  template <class T>
  void take(std::optional<T>& value, const Option& option, const toml::node& node) const {
    const bool is_unsaid = node.value_exact<std::string>() == format_optional(std::optional<T>{});
    // Records of earlier versions say 0 for an option that is not set and cannot be 0.
    const bool is_zero = !std::is_same_v<T, std::string> && exactly<T>(node) == T{} && !option.bounds.contains(0);
    value.reset();
    if (is_unsaid || is_zero) return;
    T read{};
    take(read, option, node);
    if constexpr (!std::is_same_v<T, std::string>) value = std::move(read);
  }

  // The library would also read 1 as true, or 2.0 as 2. Only a whole number may be read as a floating-point number.
  template <class T>
  static std::optional<T> exactly(const toml::node& node) {
    if constexpr (std::is_same_v<T, double>) {
      return node.is_number() ? node.value<double>() : std::nullopt;
    } else {
      return node.value_exact<T>();
    }
  }
  template <class T>
  static const char* wanted() {
    if constexpr (std::is_same_v<T, bool>) return "true or false";
    if constexpr (std::is_same_v<T, std::int64_t>) return "a whole number";
    if constexpr (std::is_same_v<T, double>) return "a number";
    return "text in quotes";
  }

  std::string where_;
  toml::table table_;
  std::vector<std::string_view> known_;
};

}  // namespace

std::string to_toml(TrainOptions options) {
  TomlWriter writer;
  options.visit(writer);
  return std::move(writer.text);
}

void from_toml(const std::string& path, TrainOptions& options, std::string where) {
  if (where.empty()) where = path;
  const std::string text = read_text(path);
  try {
    TomlReader reader(where, toml::parse(text, path));
    options.visit(reader);
    reader.finish();
  } catch (const toml::parse_error& error) {
    const auto at = error.source().begin;
    throw ConfigError(where + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": " +
                      std::string(error.description()));
  }
}

std::optional<double> parse_bytes(std::string_view name, std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 6> units{
      {{"KiB", 1024}, {"MiB", 1024 * 1024}, {"GiB", 1024 * 1024 * 1024}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}}};
  const auto* const unit = std::ranges::find_if(units, [&](const auto& each) { return text.ends_with(each.first); });
  if (unit == units.end()) return std::nullopt;
  return parse_double(name, text.substr(0, text.size() - unit->first.size()), Bounds::positive()) * unit->second;
}

}  // namespace sotto
