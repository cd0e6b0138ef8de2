#include "sotto/algorithm/gossip/gossip.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "sotto/aggregate/aggregate.h"
#include "sotto/algorithm/gossip/whole_layout.h"
#include "sotto/core/error.h"
#include "sotto/topology/table.h"

namespace sotto {

Gossiper make_gossiper(const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                       const Communicator& communicator, Contract::Input input) {
  Topology topology = make_topology("--topology", options.topology, communicator.size());
  auto mixing = make_mixing("--mixing", options.mixing, topology);
  return {"--codec",
          options.codec,
          std::move(topology),
          std::move(mixing),
          whole_layout(buckets),
          communicator.rank(),
          std::make_shared<Workers>(options.codec_threads),
          input};
}

void divide(std::span<const float> x, double weight, std::span<float> quotient) {
  const auto by = static_cast<float>(weight);
  std::ranges::transform(x, quotient.begin(), [&](float value) { return value / by; });
}

void agree_on(std::span<float> x, double& weight, Communicator& communicator) {
  aggregate(x, Op::sum, communicator);
  communicator.all_reduce(std::span(&weight, 1));
  divide(x, weight, x);
  weight = 1;
}

void visit_model(StateVisitor& visitor, std::string_view name, std::vector<float>& values, std::size_t size) {
  visitor.visit(name, values);
  if (values.empty() || values.size() == size) return;
  const std::size_t read = std::exchange(values, {}).size();
  throw FileError(fmt::format("{} has {} values, and should have {}: another model", name, read, size));
}

void visit_weight(StateVisitor& visitor, std::string_view name, double& weight) {
  auto bits = std::bit_cast<std::uint64_t>(weight);
  visitor.visit(name, bits);
  weight = std::bit_cast<double>(bits);
}

}  // namespace sotto
