#include <fmt/format.h>

#include "sotto/algorithm/ad_psgd/ad_psgd.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/algorithm/gossip/choco.h"
#include "sotto/algorithm/gossip/d_psgd.h"
#include "sotto/algorithm/gossip/nodes.h"
#include "sotto/algorithm/gossip/push_sum.h"
#include "sotto/algorithm/local/local.h"
#include "sotto/algorithm/server/parameter_server.h"
#include "sotto/algorithm/sync.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

OptionTraits always_elastic(const AnyOptions& /*own*/) { return {.elastic = true}; }

constexpr AlgorithmEntry entries[] = {
    {.name = "sync",
     .summary = "every rank applies the mean gradient of all ranks (AR)",
     .paper = "Li et al., PyTorch Distributed, VLDB 2020",
     .traits = {.replicated = true, .uses_aggregator = true, .other_ranks = true},
     .options = Made<make_sync>::options,
     .with = sync_with,
     .make = Made<make_sync>::make},
    {.name = "push_sum",
     .summary =
         "each rank takes its own step, and mixes its model with those of neighbours (SGP; with overlap=true OSGP)",
     .paper = "Assran et al., ICML 2019",
     .traits = {.other_ranks = true},
     .graph = {.used = true, .changes = true},
     .options = Made<make_push_sum>::options,
     .with = push_sum_with,
     .make = Made<make_push_sum>::make},
    {.name = "d_psgd",
     .summary =
         "mixes its model with those of neighbours while the gradient is computed; wants shares that keep the mean",
     .paper = "Lian et al., NeurIPS 2017",
     .traits = {.other_ranks = true},
     .graph = {.used = true, .problem = problem_of_d_psgd},
     .options = Made<make_d_psgd>::options,
     .with = always_elastic,
     .make = Made<make_d_psgd>::make},
    {.name = "ad_psgd",
     .summary = "each rank takes steps at its own speed, and averages its model with another's meanwhile",
     .paper = "Lian et al., ICML 2018",
     .traits = {.other_ranks = true, .own_speed = true},
     .graph = {.used = true, .topology = "bipartite_exponential", .problem = problem_of_ad_psgd},
     .options = Made<make_ad_psgd>::options,
     .with = ad_psgd_with,
     .make = Made<make_ad_psgd>::make},
    {.name = "choco",
     .summary = "each rank takes its own step, and sends the coded difference between its model and the model that "
                "neighbours know",
     .paper = "Koloskova et al., ICML 2019; Taheri et al., ICML 2020",
     .traits = {.other_ranks = true},
     .graph = {.used = true, .topology = "ring", .problem = problem_of_choco},
     .options = Made<make_choco>::options,
     .with = always_elastic,
     .make = Made<make_choco>::make},
    {.name = "local",
     .summary = "each rank takes h steps of its own; then all go to the mean of their models",
     .paper = "Lin et al., ICLR 2020",
     .traits = {.uses_aggregator = true, .other_ranks = true},
     .options = Made<make_local>::options,
     .with = always_elastic,
     .make = Made<make_local>::make},
    {.name = "slowmo",
     .summary = "as local, with a momentum of how far ranks went on average",
     .paper = "Wang et al., ICLR 2020",
     .traits = {.uses_aggregator = true, .other_ranks = true},
     .options = Made<make_slowmo>::options,
     .with = always_elastic,
     .make = Made<make_slowmo>::make},
    {.name = "diloco",
     .summary = "as local, with AdamW inside and a Nesterov step outside, of parts of the model in turn",
     .paper = "Douillard et al., 2023 and 2025",
     .traits = {.uses_aggregator = true, .other_ranks = true},
     .optimiser = "adamw",
     .options = Made<make_diloco>::options,
     .with = diloco_with,
     .make = Made<make_diloco>::make},
    {.name = "parameter_server",
     .summary = "workers send gradients to servers, which make the steps and send the model back",
     .paper = "Li et al., OSDI 2014; Ho et al., NeurIPS 2013",
     .traits = {.replicated = true, .steps_elsewhere = true},
     .options = Made<make_parameter_server>::options,
     .read = read_parameter_server,
     .with = parameter_server_with,
     .roles = parameter_server_roles,
     .make = Made<make_parameter_server>::make},
};

constexpr Table<AlgorithmEntry> table("algorithm", entries);

}  // namespace

const Table<AlgorithmEntry>& algorithm_table() { return table; }

AlgorithmSpec read_algorithm(std::string_view option, std::string_view text) {
  AlgorithmSpec spec = table.read(option, text);
  if (spec.entry->read != nullptr) spec.options = with_place(spec, [&] { return spec.entry->read(spec.options); });
  return spec;
}

int idle_ranks(const AlgorithmSpec& algorithm, int ranks) {
  return with_place(algorithm, [&] { return algorithm.entry->roles(algorithm.options, ranks).idle; });
}

bool all_in_step(const AlgorithmSpec& algorithm, int ranks) {
  if (!algorithm.entry->traits.replicated || idle_ranks(algorithm, ranks) > 0) return false;
  return algorithm.entry->roles(algorithm.options, ranks).in_step;
}

void check_nodes(const AlgorithmSpec& algorithm, std::int64_t node_size, int ranks) {
  const AlgorithmEntry& entry = *algorithm.entry;
  const auto fail = [](const std::string& why) { throw ConfigError(named("node-size") + ": " + why); };
  if (!entry.graph.used) fail(fmt::format("`{}` exchanges no models with neighbours", entry.name));
  if (entry.traits.own_speed) {
    fail(
        fmt::format("the ranks of `{}` go at their own speed, and those of a node go together; push_sum, d_psgd and "
                    "choco have nodes",
                    entry.name));
  }
  if (node_size < 1 || ranks % node_size != 0) {
    fail(fmt::format("{} ranks do not fall into nodes of {}", ranks, node_size));
  }
}

void check_graph(const AlgorithmSpec& algorithm, const TopologySpec& topology, const MixingSpec& mixing, int ranks) {
  const Topology graphs = make_topology(topology, ranks);
  const auto shares = make_mixing(mixing, graphs);
  const std::string problem = algorithm.entry->graph.problem(graphs, *shares);
  if (!problem.empty()) with_place(algorithm, [&] { throw ConfigError(problem); });
}

std::unique_ptr<Algorithm> make_algorithm(const AlgorithmSpec& algorithm, const AlgorithmOptions& options,
                                          std::span<const BucketPlan> buckets, Communicator& communicator) {
  const auto make = [&](Communicator& ranks) {
    if (algorithm.entry->graph.used) check_graph(algorithm, options.topology, options.mixing, ranks.size());
    return algorithm.entry->make(algorithm.options, options, buckets, ranks);
  };
  if (options.node_size == 1) return make(communicator);
  check_nodes(algorithm, options.node_size, communicator.size());
  return make_nodes(options, communicator, make);
}

}  // namespace sotto
