#include "app/train/options/choices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>

#include "adapters/c10d/transports.h"
#include "app/train/record/listener.h"
#include "sotto/aggregate/hierarchical.h"

namespace sotto {
namespace {

// Unifies alternative spellings.
void unite(TrainOptions& options) {
  options.model = recorded_model(options.model);
  const auto lower = [](unsigned char c) { return static_cast<char>(std::tolower(c)); };
  std::ranges::transform(options.data.data, options.data.data.begin(), lower);
  if (options.group_size) {
    const AggregatorSpec aggregator = read_aggregator(parse_expression("aggregator", options.aggregator));
    if (!group_of(aggregator)) {
      throw ConfigError(named("group-size") + ": only the aggregator hierarchical has groups");
    }
    options.aggregator = with_group(aggregator, *options.group_size).text();
    options.group_size.reset();
  }
  if (options.lr_shrinkage != 1) {
    const std::string step = fmt::format("step(every={}, factor={})", options.lr_shrink_every, options.lr_shrinkage);
    if (options.schedule != "constant") {
      throw ConfigError(
          fmt::format("{}: contradicts {}; write it there, as {}", named("lr-shrinkage"), named("schedule"), step));
    }
    options.schedule = step;
    options.lr_shrinkage = 1;
    options.lr_shrink_every = TrainOptions{}.lr_shrink_every;
  }
  if (!options.resume && !options.csv_tag.empty() && options.csv_format != "sgp") {
    throw ConfigError(
        fmt::format("{}: says nothing without {}", named("csv-tag", options.csv_tag), named("csv-format", "sgp")));
  }
  if (!options.weights_except.empty() && options.weights.empty()) {
    throw ConfigError(fmt::format("{}: says nothing without {}", named("weights-except"), named("weights")));
  }
  if (options.lr_shrink_every != TrainOptions{}.lr_shrink_every) {
    throw ConfigError(fmt::format("{}: says nothing without {}", named("lr-shrink-every"), named("lr-shrinkage")));
  }
}

void read_graph(Choices& choices) {
  TrainOptions& options = choices.options;
  const AlgorithmEntry& entry = *choices.algorithm.entry;
  const int ranks = static_cast<int>(options.ranks / options.node_size);
  if (!options.topology) options.topology = entry.graph.topology;
  choices.topology = read_topology(*options.topology);
  if (options.topology->ends_with(".toml")) options.topology = choices.topology.text();  // the file may change
  choices.mixing = read_mixing(options.mixing.value_or(""));
  if (!choices.mixing) choices.mixing = default_mixing(make_topology(choices.topology, ranks));
  options.mixing = choices.mixing.source_text();
  check_graph(choices.algorithm, choices.topology, choices.mixing, ranks);
  if (!options.peers_per_step || !entry.graph.changes) return;
  choices.peers = read_peer_schedule("peers-per-step", *options.peers_per_step, choices.topology, ranks);
  for (const TopologyPhase& phase : choices.peers) {
    check_graph(choices.algorithm, phase.topology, choices.mixing, ranks);
  }
}

// Refuses options that the algorithm would not use. A bad topology is reported before the ranks meet.
void choose_algorithm(Choices& choices) {
  const TrainOptions& options = choices.options;
  choices.algorithm = read_algorithm("algorithm", options.algorithm);
  const AlgorithmEntry& entry = *choices.algorithm.entry;
  idle_ranks(choices.algorithm, static_cast<int>(options.ranks));  // for its errors
  const auto unused = [&](bool said, std::string_view option, std::string_view why) {
    if (said) throw ConfigError(fmt::format("{}: `{}` {}", named(option), entry.name, why));
  };
  if (options.node_size != 1) {
    if (options.node_size == 0) {
      throw ConfigError(named("node-size", "0") + ": all ranks are on this host; say how many of them make a node");
    }
    check_nodes(choices.algorithm, options.node_size, static_cast<int>(options.ranks));
    unused(options.average_iterates > 0, "average-iterates",
           "between nodes takes the steps of a node on one rank alone");
    unused(options.ema > 0, "ema", "between nodes takes the steps of a node on one rank alone");
  }
  if (entry.graph.used) {
    read_graph(choices);
  } else {
    unused(options.topology.has_value(), "topology", "exchanges with no neighbours");
    unused(options.mixing.has_value(), "mixing", "exchanges with no neighbours");
  }
  unused(options.peers_per_step.has_value() && !entry.graph.changes, "peers-per-step",
         "has no peers whose number may change; push_sum has");
  if (!entry.traits.uses_aggregator) {
    unused(options.aggregator != "auto", "aggregator", "has none");
    unused(options.codec_warmup.has_value(), "codec-warmup", "has one codec for the whole run");
    unused(options.codec_start_after.value_or(0) > 0, "codec-start-after", "has one codec for the whole run");
  }
  unused(entry.traits.replicated && options.final_average, "final-average", "has the same model on all ranks as it is");
  unused(!entry.traits.replicated && options.check_replicas > 0, "check-replicas", "has other models on each rank");
}

// ConfigError if the schedule follows a metric that the task does not have.
ScheduleSpec read_rates(const TrainOptions& options, const TaskEntry& task) {
  ScheduleSpec spec = read_schedule(parse_expression("schedule", options.schedule));
  const Spec<ScheduleEntry>* plateau = plateau_of(spec);
  if (plateau == nullptr) return spec;
  const std::string& metric = plateau->options.as<PlateauOptions>().metric;
  const auto known = metric_table(task.metrics);
  if (metric != "goal" && known.find(metric) == nullptr) {
    std::vector<std::string_view> names = known.names();
    names.insert(names.begin(), "goal");
    fail_at(plateau->place, unknown_name("metric", metric, names));
  }
  return spec;
}

const Transport& read_transport(const TrainOptions& options) {
  const Transport& transport = transport_table().require("backend", options.backend);
  const TransportOptions& given = options.transport;
  if (!given.interface.empty() && !given.address.empty()) {
    throw ConfigError(fmt::format("{} and {}: say one of them", named("interface"), named("address")));
  }
  const auto refuse = [&](std::string_view option, std::string_view why, const auto& takes) {
    std::vector<std::string_view> others;
    for (const Transport& other : transport_table()) {
      if (takes(other)) others.push_back(other.name);
    }
    throw ConfigError(fmt::format("{}: only for {}; with {} {}", named(option), fmt::join(others, " and "),
                                  named("backend", transport.name), why));
  };
  for (const std::string& option : changed_options(given, TransportOptions())) {
    const auto why = transport.refuses(option);
    if (why) refuse(option, *why, [&](const Transport& other) { return !other.refuses(option); });
  }
  if (!options.master.empty() && !transport.own_meeting.empty()) {
    refuse("master", transport.own_meeting, [](const Transport& other) { return other.own_meeting.empty(); });
  }
  if (!given.relay.empty()) {
    const std::string said = named("relay", given.relay);
    read_meeting_place(said, given.relay);
    for (const auto& [name, value] : {std::pair("interface", given.interface), {"address", given.address}}) {
      if (value.empty()) continue;
      throw ConfigError(fmt::format("{}: the rank listens nowhere; leave {} out", said, named(name, value)));
    }
  }
  return transport;
}

// Refuses to capture a memory that the method lacks, or that a rank could only read while ranks wait for each other.
void require_memory(const Choices& choices) {
  if (!choices.capture.memory) return;
  const std::string said = named("capture", *choices.options.capture) + ": memory=true: ";
  if (!choices.recipe.memory || !choices.recipe.memory.entry->holds) {
    throw ConfigError(
        said + fmt::format("{} holds nothing back; `ef | ...` does", named("codec", choices.recipe.source_text)));
  }
  if (has_own_speed(choices.algorithm, static_cast<int>(choices.options.ranks))) {
    throw ConfigError(said + fmt::format("ranks of `{}` go at their own speed, and have no state after a step of all",
                                         choices.algorithm.entry->name));
  }
}

}  // namespace

bool has_own_speed(const AlgorithmSpec& algorithm, int ranks) {
  return algorithm.entry->traits.own_speed || (algorithm.entry->traits.replicated && !all_in_step(algorithm, ranks));
}

Choices read_choices(TrainOptions said) {
  Choices choices;
  TrainOptions& options = choices.options = std::move(said);
  unite(options);
  if (options.model == "auto") options.model = default_model(options.task, options.data.data);
  const Expression model = parse_model("model", options.model);
  choices.task = &find_task(options.task, model, options.data.data);
  options.task = choices.task->name;
  if (options.data.data == "auto") options.data.data = choices.task->data_names().front();
  choices.model = choices.task->read_model(model);
  choices.partition = partition_table().read("partition", options.partition);
  if (deals(choices.partition) && !choices.task->has_labels) {
    throw ConfigError(fmt::format("{}: the examples of the task {} have no labels to deal them by; iid is for all",
                                  named("partition", options.partition), choices.task->name));
  }
  choices.recipe = read_recipe(options.codec, options.aggregator);
  choose_algorithm(choices);
  choices.optimiser = read_optimiser(options, choices.recipe, choices.model.defaults, choices.algorithm);
  choices.amp = amp_table().read("amp", options.amp);
  check_amp(choices.amp, choices.algorithm, choices.optimiser);
  choices.schedule = read_rates(options, *choices.task);
  if (options.codec_warmup) choices.codec_warmup = warmup_table().read("codec-warmup", *options.codec_warmup);
  choices.transport = &read_transport(options);
  if (options.link) choices.links = parse_links("link", *options.link, static_cast<int>(options.ranks));
  if (options.until) choices.until = read_target("until", *options.until, choices.task->metrics);
  choices.buckets = read_buckets("buckets", options.buckets);
  if (options.csv_format == "sgp") check_sgp_csv(options, *choices.task);
  if (options.capture) choices.capture = read_capture("capture", *options.capture);
  require_memory(choices);
  if (options.measure_errors > 0 && choices.recipe.by_itself()) {
    throw ConfigError(fmt::format("{}: `{}` needs other ranks and makes no messages to be measured",
                                  named("measure-errors", std::to_string(options.measure_errors)),
                                  choices.recipe.aggregator.text()));
  }
  if (options.resume && options.train_dir.empty()) {
    throw ConfigError(fmt::format("{}: say which run with {}", named("resume"), named("train-dir")));
  }
  return choices;
}

std::unique_ptr<Task> make_task(const Choices& choices, Share share) {
  const TrainOptions& options = choices.options;
  TaskSetup setup{.model = choices.model, .data = options.data, .seed = static_cast<std::uint64_t>(options.seed)};
  setup.share = share;
  setup.partition = choices.partition;
  setup.batch = static_cast<std::size_t>(options.batch_size);
  setup.test_batch = static_cast<std::size_t>(options.test_batch_size);
  setup.precision = choices.amp.entry->precision;
  return choices.task->make(setup);
}

int ranks_of_host(std::string_view asked, std::string_view instead, const World& world) {
  if (world.size % world.local_size != 0 || world.rank % world.local_size != world.local_rank) {
    throw ConfigError(fmt::format(
        "{}: rank {} of {} is number {} of {} on its host; groups are ranks that follow each other, as many on each "
        "host: start them so (srun --distribution=block), or say {}",
        asked, world.rank, world.size, world.local_rank, world.local_size, instead));
  }
  if (world.size > 1 && world.local_size == 1) {
    throw ConfigError(fmt::format(
        "{}: as {} says, or does not say, each of {} ranks is alone on its host, and no group has more than one; say "
        "{}",
        asked, world.starter, world.size, instead));
  }
  return world.local_size;
}

Choices with_groups(Choices choices, const World& world) {
  AggregatorSpec& aggregator = choices.recipe.aggregator;
  if (!aggregator) return choices;
  auto group = group_of(aggregator);
  if (!group) return choices;
  std::string& said = choices.options.aggregator;
  if (*group == 0) {
    group = ranks_of_host(named("aggregator", said), named("group-size"), world);
    aggregator = with_group(aggregator, *group);
    said = aggregator.text();
  }
  if (world.size % *group != 0) {
    throw ConfigError(fmt::format("{}: {} ranks do not fall into groups of {}; say a {} that divides them",
                                  named("aggregator", said), world.size, *group, named("group-size")));
  }
  return choices;
}

std::string Bucketing::text() const {
  if (layers) return "layer";
  return most == 0 ? "whole" : std::to_string(most);
}

Bucketing read_buckets(std::string_view option, std::string_view text) {
  if (text == "layer") return {.layers = true};
  if (text == "whole") return {};
  const std::string said = named(option, text);
  const auto size = parse_bytes(said + ": the size", text);
  if (!size) throw ConfigError(said + ": must be layer, whole or a size, as 25MB");
  constexpr double least = 1024, most = 2.0 * 1024 * 1024 * 1024;
  if (*size < least || *size > most) throw ConfigError(said + ": must be in [1KiB, 2GiB]");
  return {.most = static_cast<std::size_t>(*size)};
}

std::vector<BucketPlan> plan_buckets(const Layout& layout, const Bucketing& buckets) {
  if (buckets.layers) return plan_layers(layout);
  return plan_buckets(layout, buckets.most == 0 ? std::numeric_limits<std::size_t>::max() : buckets.most);
}

void require_whole_tensors(const Optimiser& optimiser, const Layout& layout, std::span<const BucketPlan> buckets) {
  if (!optimiser.needs_whole_tensors()) return;
  for (const BucketPlan& bucket : buckets) {
    const Segment& segment = layout.segments()[bucket.first];
    if (bucket.range.begin <= segment.offset && bucket.range.end >= segment.range().end) continue;
    throw ConfigError(fmt::format(
        "{}: its step depends on whole tensors, and `{}` of {} elements is cut into several messages; take one that "
        "works element by element, such as sgd or adamw",
        named("optimiser"), segment.name, segment.numel()));
  }
}

}  // namespace sotto
