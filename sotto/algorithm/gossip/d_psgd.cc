#include "sotto/algorithm/gossip/d_psgd.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sotto/aggregate/aggregate.h"
#include "sotto/algorithm/compute.h"
#include "sotto/algorithm/gossip/gossip.h"
#include "sotto/algorithm/gossip/model_gossiper.h"
#include "sotto/comm/comm_thread.h"
#include "sotto/core/options.h"
#include "sotto/core/timer.h"
#include "sotto/topology/mixing_matrix.h"

namespace sotto {
namespace {

class DPsgd final : public Algorithm, private Elastic {
 public:
  DPsgd(const AlgorithmOptions& options, ModelGossiper gossiper, Communicator& communicator)
      : Algorithm({.rhythm = {0, gossiper.topology().period()}, .starts_early = options.overlap}, this),
        Elastic({.meets_models = true}),
        options_(options),
        communicator_(communicator),
        gossiper_(std::move(gossiper)),
        stop_delay_([this] { return gossiper_.topology().rounds_to_reach_all(); }) {}

  AlgorithmStatus status() const override { return {"gossip"}; }

  StepReport step(Worker& worker, const StepInput& input) override {
    Timer total, lap;
    StepReport report;
    communicator_.at_step(input.step);
    x_.assign(worker.parameters().begin(), worker.parameters().end());
    worker.optimiser().begin_step(input.step);
    if (input.stop) stop_delay_.stop(note_, input.step);
    gossiper_.begin(x_, note_, key_of(options_, communicator_, input), report.timings);
    thread_.post([this] { gossiper_.exchange(communicator_, on_the_way_); });
    if (!options_.overlap) thread_.wait();
    report.wait = lap.lap();
    report.loss = compute_beside(thread_, worker, input.step);
    report.compute = lap.lap();
    thread_.wait();
    report.wait += lap.lap();
    gossiper_.finish(x_, note_, report.timings);
    report.timings.network += std::exchange(on_the_way_, {}).network;
    step_all(worker, x_, input.lr, scratch_);
    std::ranges::copy(x_, worker.parameters().begin());
    report.compute += lap.lap();
    report.stop = input.step >= note_.stop_step;
    report.seconds = total.seconds();
    return report;
  }

  void go_on() override { note_.stop_step = GossipNote{}.stop_step; }
  void average_models(Worker& worker) override { aggregate(worker.parameters(), Op::avg, communicator_); }
  void visit_state(StateVisitor& visitor) override { gossiper_.visit_state(visitor); }

 private:
  std::uint64_t lead() override { return stop_delay_.steps(); }
  void take_over(std::span<const FormerRank> each) override {
    for (const FormerRank& former : each) visit_state(*former.state);
  }
  void sync_after_change(Worker& worker, bool is_new) override {
    average_members(worker.parameters(), communicator_, !is_new);
  }

  AlgorithmOptions options_;
  Communicator& communicator_;
  ModelGossiper gossiper_;
  StopDelay stop_delay_;
  std::vector<float> x_, scratch_;
  GossipNote note_;
  Timings on_the_way_;
  CommThread thread_;  // last: it is destroyed before what its work uses
};

}  // namespace

std::unique_ptr<Algorithm> make_d_psgd(const NoOptions& /*own*/, const AlgorithmOptions& options,
                                       std::span<const BucketPlan> buckets, Communicator& communicator) {
  return std::make_unique<DPsgd>(options, ModelGossiper(options, buckets, communicator), communicator);
}

std::string problem_of_d_psgd(const Topology& topology, const Mixing& mixing) {
  if (doubly_stochastic(topology, mixing)) return "";
  return fmt::format(
      "wants a doubly stochastic mixing, which `{}` is not on `{}`; on symmetric topologies metropolis is, and "
      "push_sum takes any",
      mixing.sentence(), topology.sentence());
}

}  // namespace sotto
