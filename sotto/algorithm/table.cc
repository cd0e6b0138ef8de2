#include "sotto/core/table.h"

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
#include "sotto/topology/mixing.h"
#include "sotto/topology/table.h"

namespace sotto {
namespace {

constexpr AlgorithmEntry table[] = {
    {.name = "sync",
     .summary = "every rank applies the mean gradient of all ranks (AR)",
     .paper = "Li et al., PyTorch Distributed, VLDB 2020",
     .replicated = true,
     .uses_aggregator = true,
     .help = help_sync,
     .make = make_sync},
    {.name = "push_sum",
     .summary =
         "each rank takes its own step, and mixes its model with those of neighbours (SGP; with overlap=true OSGP)",
     .paper = "Assran et al., ICML 2019",
     .uses_topology = true,
     .help = help_push_sum,
     .make = make_push_sum,
     .changes_peers = true},
    {.name = "d_psgd",
     .summary = "as push_sum on symmetric graphs, while the gradient is computed",
     .paper = "Lian et al., NeurIPS 2017",
     .uses_topology = true,
     .help = help_d_psgd,
     .make = make_d_psgd,
     .problem = problem_of_d_psgd},
    {.name = "ad_psgd",
     .summary = "each rank takes steps at its own speed, and averages its model with another's meanwhile",
     .paper = "Lian et al., ICML 2018",
     .uses_topology = true,
     .help = help_ad_psgd,
     .make = make_ad_psgd,
     .topology = "bipartite_exponential",
     .problem = problem_of_ad_psgd,
     .own_speed = true},
    {.name = "choco",
     .summary = "each rank takes its own step, and sends the coded difference to what neighbours know of its model",
     .paper = "Koloskova et al., ICML 2019; Taheri et al., ICML 2020",
     .uses_topology = true,
     .help = help_choco,
     .make = make_choco,
     .topology = "ring",
     .problem = problem_of_choco},
    {.name = "local",
     .summary = "each rank takes h steps of its own; then all go to the mean of their models",
     .paper = "Lin et al., ICLR 2020",
     .uses_aggregator = true,
     .help = help_local,
     .make = make_local},
    {.name = "slowmo",
     .summary = "as local, with a momentum of how far ranks went on average",
     .paper = "Wang et al., ICLR 2020",
     .uses_aggregator = true,
     .help = help_slowmo,
     .make = make_slowmo},
    {.name = "diloco",
     .summary = "as local, with AdamW inside and a Nesterov step outside, of parts of the model in turn",
     .paper = "Douillard et al., 2023 and 2025",
     .uses_aggregator = true,
     .help = help_diloco,
     .make = make_diloco,
     .optimiser = "adamw"},
    {.name = "parameter_server",
     .summary = "workers send gradients to servers, which make the steps and send the model back",
     .paper = "Li et al., OSDI 2014; Ho et al., NeurIPS 2013",
     .replicated = true,
     .help = help_parameter_server,
     .make = make_parameter_server,
     .idle = idle_parameter_server,
     .in_step = parameter_server_in_step},
};

const AlgorithmEntry& entry_of(const Sentence& sentence) {
  const Call& call = sentence.calls.front();
  if (sentence.calls.size() > 1) fail_at(sentence, call, sentence.calls[1].position, "an algorithm is a single call");
  return require_entry(algorithm_table(), "algorithm", sentence, call);
}

void require_graph(const AlgorithmEntry& entry, const Sentence& sentence, std::string_view topology,
                   std::string_view mixing, int ranks) {
  const Topology graphs = make_topology("topology", topology, ranks);
  const auto shares = make_mixing("mixing", mixing, graphs);
  const std::string problem = entry.problem == nullptr ? "" : entry.problem(graphs, *shares);
  if (!problem.empty()) fail_at(sentence, sentence.calls.front(), sentence.calls.front().position, problem);
}

}  // namespace

std::span<const AlgorithmEntry> algorithm_table() { return table; }

std::string algorithm_list() {
  std::string text = "\nAlgorithms:\n";
  for (const AlgorithmEntry& entry : table) {
    text += fmt::format("  {:<16} {}; {}\n", entry.name, entry.summary, entry.paper);
  }
  for (const AlgorithmEntry& entry : table) {
    const std::string options = entry.help();
    if (!options.empty()) text += fmt::format("Options of {}:\n{}", entry.name, options);
  }
  return text;
}

const AlgorithmEntry& algorithm_entry(std::string_view where, std::string_view sentence) {
  return entry_of(parse_sentence(where, sentence));
}

int idle_ranks(std::string_view where, std::string_view sentence, int ranks) {
  const Sentence parsed = parse_sentence(where, sentence);
  const AlgorithmEntry& entry = entry_of(parsed);
  return entry.idle == nullptr ? 0 : entry.idle(parsed, parsed.calls.front(), ranks);
}

bool all_in_step(std::string_view where, std::string_view sentence, int ranks) {
  const Sentence parsed = parse_sentence(where, sentence);
  const AlgorithmEntry& entry = entry_of(parsed);
  if (!entry.replicated || idle_ranks(where, sentence, ranks) > 0) return false;
  return entry.in_step == nullptr || entry.in_step(parsed, parsed.calls.front(), ranks);
}

std::string problem_of_nodes(std::string_view where, std::string_view sentence, std::int64_t node_size, int ranks) {
  const AlgorithmEntry& entry = algorithm_entry(where, sentence);
  if (!entry.uses_topology) return fmt::format("`{}` exchanges no models with neighbours", entry.name);
  if (entry.own_speed)
    return fmt::format(
        "the ranks of `{}` go at their own speed, and those of a node go together; push_sum, d_psgd and choco have "
        "nodes",
        entry.name);
  if (node_size < 1 || ranks % node_size != 0)
    return fmt::format("{} ranks do not fall into nodes of {}", ranks, node_size);
  return "";
}

void check_graph(std::string_view where, std::string_view sentence, std::string_view topology, std::string_view mixing,
                 int ranks) {
  const Sentence parsed = parse_sentence(where, sentence);
  require_graph(entry_of(parsed), parsed, topology, mixing, ranks);
}

std::unique_ptr<Algorithm> make_algorithm(std::string_view where, std::string_view sentence,
                                          const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                                          Communicator& communicator) {
  const Sentence parsed = parse_sentence(where, sentence);
  const AlgorithmEntry& entry = entry_of(parsed);
  const auto make = [&](Communicator& ranks) {
    if (entry.uses_topology) require_graph(entry, parsed, options.topology, options.mixing, ranks.size());
    return entry.make(parsed, parsed.calls.front(), options, buckets, ranks);
  };
  if (options.node_size == 1) return make(communicator);
  if (const std::string problem = problem_of_nodes(where, sentence, options.node_size, communicator.size());
      !problem.empty()) {
    throw ConfigError("--node-size: " + problem);
  }
  return make_nodes(options, communicator, make);
}

}  // namespace sotto
