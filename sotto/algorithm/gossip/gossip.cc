#include "sotto/algorithm/gossip/gossip.h"

#include <fmt/format.h>

#include <bit>
#include <memory>

#include "sotto/topology/table.h"

namespace sotto {

std::vector<Gossiper> make_gossipers(const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                                     const Communicator& communicator, Contract::Input input) {
  const auto topology = std::make_shared<const Topology>(make_topology(options.topology, communicator.size()));
  const std::shared_ptr<const Mixing> mixing = make_mixing(options.mixing, *topology);
  const auto pool = std::make_shared<ThreadPool>(options.codec_threads);
  std::vector<Gossiper> gossipers;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    gossipers.emplace_back(options.recipe(), topology, mixing, buckets[b].layout, communicator.rank(), pool, input,
                           static_cast<std::uint16_t>(b));
  }
  return gossipers;
}

void visit_gossipers(StateVisitor& visitor, std::span<Gossiper> gossipers) {
  for (std::size_t b = 0; b < gossipers.size(); ++b) {
    ScopedState scoped(visitor, fmt::format("bucket {}", b));
    gossipers[b].visit_state(scoped);
  }
}

void visit_weight(StateVisitor& visitor, std::string_view name, double& weight) {
  auto bits = std::bit_cast<std::uint64_t>(weight);
  visitor.visit(name, bits);
  weight = std::bit_cast<double>(bits);
}

}  // namespace sotto
