#include "sotto/algorithm/gossip/push_sum.h"

#include <algorithm>
#include <utility>

#include "sotto/aggregate/gossiper.h"
#include "sotto/algorithm/compute.h"
#include "sotto/algorithm/gossip/gossip.h"
#include "sotto/comm/comm_thread.h"
#include "sotto/core/options.h"
#include "sotto/core/timer.h"
#include "sotto/optim/stretch.h"
#include "sotto/topology/table.h"

namespace sotto {
namespace {

struct PushSumOptions {
  bool overlap = false;
  std::int64_t synch_freq = 1;
  void visit(OptionVisitor& v) {
    v.option("overlap", overlap, "let a round be on its way while the next steps compute");
    v.option("synch_freq", synch_freq, "steps after which what arrived is added, with overlap", Bounds{1, 1e6});
  }
};

class PushSum final : public Algorithm {
 public:
  PushSum(const PushSumOptions& own, const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
          Communicator& communicator)
      : own_(own),
        options_(options),
        communicator_(communicator),
        gossiper_(make_gossiper(options, buckets, communicator)),
        patience_((gossiper_.topology().spread() + 1) * steps_of_a_round()) {
    for (const TopologyPhase& phase : options.topologies) {
      const Topology topology = make_topology("--topology", phase.topology, communicator.size());
      patience_ = std::max(patience_, (topology.spread() + 1) * steps_of_a_round());
    }
  }

  std::string_view name() const override { return "push_sum"; }
  std::string_view aggregator() const override { return "gossip"; }
  std::string remark() const override { return ""; }
  Rhythm rhythm() const override { return {0, steps_of_a_round() * gossiper_.topology().period()}; }
  bool exchanges(std::uint64_t step) const override { return step % steps_of_a_round() == 0; }
  void enter(std::uint64_t /*step*/) override {}

  StepReport step(Worker& worker, const StepInput& input) override {
    Timer total, lap;
    StepReport report;
    begin(worker);
    worker.optimiser().begin_step(input.step);
    report.loss = compute_beside(thread_, worker, input.step);
    worker.optimiser().apply(x_, offered(worker), 0, input.lr);
    if (input.stop) note_.least = std::min(note_.least, input.step + patience_);
    report.compute = lap.lap();
    Key key = key_of(options_, communicator_, input);
    key.step = static_cast<std::uint32_t>(rounds_);
    if (own_.overlap) {
      if (on_its_way_ && input.step >= due_) collect(report.phases);
      if (!on_its_way_) send(key, input.step, report.phases);
    } else {
      communicator_.at_step(input.step);
      choose_topology(input.step);
      gossiper_.mix(x_, note_, key, communicator_, report.phases);
      ++rounds_;
    }
    report.wait = lap.lap();
    show(worker);
    report.compute += lap.lap();
    report.stop = input.step >= note_.least;
    report.seconds = total.seconds();
    return report;
  }

  void rest() override {
    if (on_its_way_) thread_.wait();
  }

  void agree(Worker& worker) override {
    Phases unused;
    if (on_its_way_) collect(unused);
    begin(worker);
    agree_on(x_, note_.weight, communicator_);
    show(worker);
  }

  // What is on its way is not added yet: a run goes on with the same bits whether it was looked at or not. A wish to
  // stop is none of a run that goes on.
  void visit_state(StateVisitor& visitor) override {
    gossiper_.visit_state(visitor);
    visit_model(visitor, "push_sum.x", x_, gossiper_.size());
    visit_weight(visitor, "push_sum.weight", note_.weight);
    visitor.visit("push_sum.rounds", rounds_);
    shown_ = false;  // it may have been read
    if (!own_.overlap) return;
    arrive();
    arriving_.resize(x_.size());
    visit_vector(visitor, "push_sum.arriving", arriving_);
    visit_weight(visitor, "push_sum.arriving_weight", arriving_note_.weight);
    visitor.visit("push_sum.due", due_);
    on_its_way_ = has_arrived_ = due_ != 0;
  }

 private:
  std::size_t steps_of_a_round() const { return own_.overlap ? static_cast<std::size_t>(own_.synch_freq) : 1; }

  // z, which gradients are taken at and models are evaluated with.
  void show(Worker& worker) {
    divide(x_, note_.weight, worker.parameters());
    shown_ = true;
  }
  void begin(Worker& worker) {
    if (x_.empty()) x_.assign(worker.parameters().begin(), worker.parameters().end());
    if (own_.overlap && arriving_.empty()) arriving_.resize(x_.size());
    if (!shown_) show(worker);
  }
  static std::span<const float> offered(Worker& worker) { return worker.optimiser().outgoing(worker.gradient(), 0); }

  // Of the round that begins: none is on its way.
  void choose_topology(std::uint64_t step) {
    const auto begins = [&](const TopologyPhase& phase) { return phase.first_step <= step; };
    const auto& phases = options_.topologies;
    const auto begun = static_cast<std::size_t>(std::ranges::count_if(phases, begins));
    if (begun == phases_begun_) return;
    phases_begun_ = begun;
    gossiper_.follow(make_topology("--topology", phases[begun - 1].topology, communicator_.size()));
  }

  void send(const Key& key, std::uint64_t step, Phases& phases) {
    choose_topology(step);
    gossiper_.begin(x_, note_, key, phases);
    ++rounds_;
    due_ = step + static_cast<std::uint64_t>(own_.synch_freq);
    communicator_.at_step(step);
    on_its_way_ = true;
    thread_.post([this] { gossiper_.exchange(communicator_, on_the_way_); });
  }
  // What came in, as one vector, which a checkpoint can hold.
  void arrive() {
    if (!on_its_way_ || has_arrived_) return;
    std::ranges::fill(arriving_, 0.0F);
    arriving_note_ = {.weight = 0};
    gossiper_.finish(arriving_, arriving_note_, on_the_way_);
    has_arrived_ = true;
  }
  void collect(Phases& phases) {
    if (!has_arrived_) thread_.wait();
    arrive();
    std::ranges::transform(x_, arriving_, x_.begin(), std::plus<>());
    note_.weight += arriving_note_.weight;
    note_.least = std::min(note_.least, arriving_note_.least);
    const Phases spent = std::exchange(on_the_way_, {});
    phases.network += spent.network;
    phases.decode += spent.decode;
    on_its_way_ = has_arrived_ = false;
    due_ = 0;
  }

  PushSumOptions own_;
  AlgorithmOptions options_;
  Communicator& communicator_;
  Gossiper gossiper_;
  std::uint64_t patience_;  // steps after which all have heard of a stop
  std::vector<float> x_;
  GossipNote note_;
  bool shown_ = false;  // the worker has z of this x
  std::uint64_t rounds_ = 0;
  std::size_t phases_begun_ = 0;  // of options_.topologies
  // With overlap: the round that is on its way.
  std::vector<float> arriving_;
  GossipNote arriving_note_;
  Phases on_the_way_;
  std::uint64_t due_ = 0;
  bool on_its_way_ = false, has_arrived_ = false;
  CommThread thread_;  // last: it ends before what its work uses
};

}  // namespace

std::unique_ptr<Algorithm> make_push_sum(const Sentence& sentence, const Call& call, const AlgorithmOptions& options,
                                         std::span<const BucketPlan> buckets, Communicator& communicator) {
  PushSumOptions own;
  read_options(sentence, call, own);
  if (!own.overlap && own.synch_freq != 1) fail_at(sentence, call, call.position, "synch_freq is of overlap=true");
  return std::make_unique<PushSum>(own, options, buckets, communicator);
}

std::string help_push_sum() { return help_options(PushSumOptions{}); }

}  // namespace sotto
