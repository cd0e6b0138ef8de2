#include "sotto/algorithm/gossip/pushed_model.h"

#include <algorithm>

#include "sotto/algorithm/gossip/gossip.h"
#include "sotto/topology/table.h"

namespace sotto {

void PushedModel::begin(Worker& worker) {
  if (x_.empty()) x_.assign(worker.parameters().begin(), worker.parameters().end());
  if (!shown_) show(worker);
}

void PushedModel::show(Worker& worker) {
  divide(x_, note.weight, worker.parameters());
  shown_ = true;
}

void PushedModel::agree(Worker& worker, Communicator& communicator) {
  begin(worker);
  agree_on(x_, note.weight, communicator);
  show(worker);
}

void PushedModel::visit_state(StateVisitor& visitor) {
  visit_model(visitor, "push_sum.x", x_, size_);
  visit_weight(visitor, "push_sum.weight", note.weight);
  shown_ = false;  // it may have been read
}

ChangingPeers::ChangingPeers(const AlgorithmOptions& options, int ranks) : phases_(options.topologies), ranks_(ranks) {}

std::optional<Topology> ChangingPeers::begun(std::uint64_t step) {
  const auto begins = [&](const TopologyPhase& phase) { return phase.first_step <= step; };
  const auto begun = static_cast<std::size_t>(std::ranges::count_if(phases_, begins));
  if (begun == phases_begun_) return std::nullopt;
  phases_begun_ = begun;
  return make_topology("--topology", phases_[begun - 1].topology, ranks_);
}

std::uint64_t ChangingPeers::spread(const Topology& first) const {
  std::uint64_t longest = first.spread();
  for (const TopologyPhase& phase : phases_) {
    longest = std::max<std::uint64_t>(longest, make_topology("--topology", phase.topology, ranks_).spread());
  }
  return longest;
}

}  // namespace sotto
