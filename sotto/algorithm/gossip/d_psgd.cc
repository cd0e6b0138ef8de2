#include "sotto/algorithm/gossip/gossip.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sotto/aggregate/aggregate.h"
#include "sotto/algorithm/gossip/gossip_step.h"
#include "sotto/algorithm/worker.h"
#include "sotto/core/options.h"
#include "sotto/topology/mixing_matrix.h"

namespace sotto {
namespace {

class DPsgd final : public GossipStep {
 public:
  DPsgd(const AlgorithmOptions& options, std::unique_ptr<ModelGossiper> gossiper, Communicator& communicator)
      : GossipStep(options, communicator,
                   {.rhythm = {0, gossiper->topology().period()}, .starts_early = options.overlap},
                   [this] { return gossiper_->topology().rounds_to_reach_all(); }),
        gossiper_(std::move(gossiper)) {}

  void average_models(Worker& worker) override { aggregate(worker.parameters(), Op::avg, communicator_); }
  void visit_state(StateVisitor& visitor) override { gossiper_->visit_state(visitor); }

 private:
  void gossip(Worker& worker, Step& now) override {
    x_.assign(worker.parameters().begin(), worker.parameters().end());
    worker.optimiser().begin_step(now.step);
    gossiper_->leave(x_, note_, now);
    if (!options_.overlap) gossiper_->wait(now);
    gossiper_->compute(worker, now);
    gossiper_->wait(now);
    gossiper_->finish(x_, note_, now.timings);
    step_all(worker, x_, now.lr, scratch_);
    std::ranges::copy(x_, worker.parameters().begin());
  }

  std::unique_ptr<ModelGossiper> gossiper_;
  std::vector<float> x_, scratch_;
};

}  // namespace

std::unique_ptr<Algorithm> make_d_psgd(const NoOptions& /*own*/, const AlgorithmOptions& options,
                                       std::span<const BucketPlan> buckets, Communicator& communicator) {
  return std::make_unique<DPsgd>(options, std::make_unique<ModelGossiper>(options, buckets, communicator),
                                 communicator);
}

std::string problem_of_d_psgd(const Topology& topology, const Mixing& mixing) {
  if (doubly_stochastic(topology, mixing)) return "";
  return fmt::format(
      "wants a doubly stochastic mixing, which `{}` is not on `{}`; on symmetric topologies metropolis is, and "
      "push_sum takes any",
      mixing.text(), topology.text());
}

}  // namespace sotto
