#include "sotto/core/table.h"

#include <fmt/format.h>

#include "sotto/algorithm/ad_psgd/ad_psgd.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/algorithm/gossip/choco.h"
#include "sotto/algorithm/gossip/d_psgd.h"
#include "sotto/algorithm/gossip/push_sum.h"
#include "sotto/algorithm/local/local.h"
#include "sotto/algorithm/server/parameter_server.h"
#include "sotto/algorithm/sync.h"
#include "sotto/topology/mixing.h"
#include "sotto/topology/table.h"

namespace sotto {
namespace {

constexpr AlgorithmEntry table[] = {
    {"sync", "every rank applies the mean gradient of all ranks", "Li et al., PyTorch Distributed, VLDB 2020", true,
     true, false, help_sync, make_sync},
    {"push_sum", "each rank takes its own step, and mixes its model with those of neighbours",
     "Assran et al., ICML 2019", false, false, true, help_push_sum, make_push_sum, "auto", nullptr, "exponential",
     nullptr, true},
    {"d_psgd", "as push_sum on symmetric graphs, while the gradient is computed", "Lian et al., NeurIPS 2017", false,
     false, true, help_d_psgd, make_d_psgd},
    {"ad_psgd", "each rank takes steps at its own speed, and averages its model with another's meanwhile",
     "Lian et al., ICML 2018", false, false, true, help_ad_psgd, make_ad_psgd, "auto", nullptr, "bipartite_exponential",
     problem_of_ad_psgd},
    {"choco", "each rank takes its own step, and sends the coded difference to what neighbours know of its model",
     "Koloskova et al., ICML 2019; Taheri et al., ICML 2020", false, false, true, help_choco, make_choco},
    {"local", "each rank takes h steps of its own; then all go to the mean of their models", "Lin et al., ICLR 2020",
     false, true, false, help_local, make_local},
    {"slowmo", "as local, with a momentum of how far ranks went on average", "Wang et al., ICLR 2020", false, true,
     false, help_slowmo, make_slowmo},
    {"diloco", "as local, with AdamW inside and a Nesterov step outside, of parts of the model in turn",
     "Douillard et al., 2023 and 2025", false, true, false, help_diloco, make_diloco, "adamw"},
    {"parameter_server", "workers send gradients to servers, which make the steps and send the model back",
     "Li et al., OSDI 2014; Ho et al., NeurIPS 2013", true, false, false, help_parameter_server, make_parameter_server,
     "auto", idle_parameter_server, "exponential", nullptr, false, parameter_server_in_step},
};

const AlgorithmEntry& entry_of(const Sentence& sentence) {
  const Call& call = sentence.calls.front();
  if (sentence.calls.size() > 1) fail_at(sentence, call, sentence.calls[1].position, "an algorithm is a single call");
  return require_entry(algorithm_table(), "algorithm", sentence, call);
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

void check_graph(std::string_view where, std::string_view sentence, std::string_view topology, std::string_view mixing,
                 int ranks) {
  const Sentence parsed = parse_sentence(where, sentence);
  const AlgorithmEntry& entry = entry_of(parsed);
  const Topology graphs = make_topology("--topology", topology, ranks);
  const auto shares = make_mixing("--mixing", mixing, graphs);
  if (entry.problem == nullptr) return;
  const std::string problem = entry.problem(graphs, *shares);
  if (!problem.empty()) fail_at(parsed, parsed.calls.front(), parsed.calls.front().position, problem);
}

std::unique_ptr<Algorithm> make_algorithm(std::string_view where, std::string_view sentence,
                                          const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                                          Communicator& communicator) {
  const Sentence parsed = parse_sentence(where, sentence);
  return entry_of(parsed).make(parsed, parsed.calls.front(), options, buckets, communicator);
}

}  // namespace sotto
