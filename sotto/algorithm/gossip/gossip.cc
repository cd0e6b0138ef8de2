#include "sotto/algorithm/gossip/gossip.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <memory>
#include <utility>

#include "sotto/core/error.h"
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

void FormerModels::add(std::span<const float> x, double weight) {
  x_.resize(x.size());
  std::ranges::transform(x_, x, x_.begin(), std::plus<>());
  weight_ += weight;
  ++count_;
}

std::vector<float> FormerModels::x() const {
  std::vector<float> mean(x_.size());
  const auto count = static_cast<double>(count_);
  std::ranges::transform(x_, mean.begin(), [&](double sum) { return static_cast<float>(sum / count); });
  return mean;
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
