#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "sotto/algorithm/gossip/gossip.h"
#include "sotto/algorithm/gossip/gossip_step.h"
#include "sotto/algorithm/worker.h"
#include "sotto/core/state.h"

namespace sotto {
namespace {

class PushSumOverlap final : public PushSumStep {
 public:
  PushSumOverlap(std::uint64_t synch_freq, const AlgorithmOptions& options, std::unique_ptr<ModelGossiper> gossiper,
                 Communicator& communicator)
      : PushSumStep("push_sum", gossiper->size(), options, communicator,
                    {.rhythm = {0, synch_freq * gossiper->topology().period()}, .schedule = {synch_freq, 1, 1, 1}},
                    [this] { return (peers_.rounds_to_reach_all() + 1) * synch_freq_; }),
        synch_freq_(synch_freq),
        gossiper_(std::move(gossiper)),
        peers_(options, communicator.size()),
        arriving_(gossiper_->size()) {}

  StepCost drain() override {
    Step unused;
    if (on_its_way_) gossiper_->wait(unused);
    return {};
  }

  void go_on() override {
    arrive();  // including its wish to stop
    arriving_note_.stop_step = GossipNote{}.stop_step;
    PushSumStep::go_on();
  }

  // Does not add what is on its way: with synch_freq=1 a run continues with the same bits whether its state was visited
  // or not.
  void visit_state(StateVisitor& visitor) override {
    gossiper_->visit_state(visitor);
    PushSumStep::visit_state(visitor);
    visit_shared(visitor);
    arrive();
    visit_vector(visitor, "push_sum.arriving", arriving_);
    visit_weight(visitor, "push_sum.arriving_weight", arriving_note_.weight);
    visitor.visit("push_sum.due", due_);
    on_its_way_ = has_arrived_ = due_ != 0;
  }
  void visit_shared(StateVisitor& visitor) override { visitor.visit("push_sum.rounds", rounds_); }

 private:
  void gossip(Worker& worker, Step& now) override {
    begin(worker);
    worker.optimiser().begin_step(now.step);
    gossiper_->compute(worker, now);
    step_all(worker, x_, now.lr, scratch_);
    if (on_its_way_ && (now.step >= due_ || has_arrived_ || gossiper_->has_come())) {
      if (!has_arrived_) gossiper_->wait(now);
      collect(now.timings);
    }
    if (exchanges(now.step)) send(now);  // the last round has been collected by then
    show(worker);
  }

  void send(Step& now) {
    if (const auto topology = peers_.begun(now.step)) gossiper_->follow(topology);
    now.key.step = static_cast<std::uint32_t>(rounds_++);
    gossiper_->leave(x_, note_, now);
    due_ = now.step + synch_freq_;
    on_its_way_ = true;
  }
  // Makes one vector of what came in, which a checkpoint can hold; a vector of zeros if nothing is on its way.
  void arrive() {
    if (has_arrived_) return;
    std::ranges::fill(arriving_, 0.0F);
    arriving_note_ = {.weight = 0};
    if (on_its_way_) gossiper_->finish(arriving_, arriving_note_, on_the_way_);
    has_arrived_ = on_its_way_;
  }
  // REQUIRES that the round has come.
  void collect(Timings& timings) {
    arrive();
    std::ranges::transform(x_, arriving_, x_.begin(), std::plus<>());
    note_.weight += arriving_note_.weight;
    note_.stop_step = std::min(note_.stop_step, arriving_note_.stop_step);
    timings += std::exchange(on_the_way_, {});
    on_its_way_ = has_arrived_ = false;
    due_ = 0;
  }
  void collect_all() override {
    Timings unused;
    drain();
    if (on_its_way_) collect(unused);
  }

  std::uint64_t synch_freq_;
  std::unique_ptr<ModelGossiper> gossiper_;
  ChangingPeers peers_;
  std::vector<float> scratch_;
  std::uint64_t rounds_ = 0;
  // The round that is on its way:
  std::vector<float> arriving_;
  GossipNote arriving_note_;
  Timings on_the_way_;
  std::uint64_t due_ = 0;  // the step after which it is added at the latest
  bool on_its_way_ = false, has_arrived_ = false;
};

}  // namespace

std::unique_ptr<Algorithm> make_push_sum_overlap(std::int64_t synch_freq, const AlgorithmOptions& options,
                                                 std::span<const BucketPlan> buckets, Communicator& communicator) {
  return std::make_unique<PushSumOverlap>(static_cast<std::uint64_t>(synch_freq), options,
                                          std::make_unique<ModelGossiper>(options, buckets, communicator),
                                          communicator);
}

}  // namespace sotto
