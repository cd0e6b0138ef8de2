#include "sotto/core/table.h"

#include "sotto/algorithm/ad_psgd/ad_psgd.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/algorithm/gossip/gossip.h"
#include "sotto/algorithm/local/local.h"
#include "sotto/algorithm/server/parameter_server.h"
#include "sotto/algorithm/sync.h"

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

}  // namespace sotto
