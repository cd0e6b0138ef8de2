#include "sotto/algorithm/algorithm.h"

#include <fmt/format.h>

#include "sotto/algorithm/gossip/gossip.h"

namespace sotto {

StepReport Step::report(double seconds) const {
  return {{seconds, seconds - wait, wait, queue, timings}, loss, stops, meets};
}

StepReport Algorithm::step(Worker& worker, const StepInput& input) {
  const Timer timer;
  Step now{input};
  now.key = {options_.seed, static_cast<std::uint16_t>(communicator_.rank()), options_.generation,
             static_cast<std::uint32_t>(input.step)};
  Following* following = elastic_ != nullptr ? elastic_->following() : nullptr;
  run_step(following != nullptr ? following->of(worker) : worker, now);
  return now.report(timer.seconds());
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
