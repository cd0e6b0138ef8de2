#include "sotto/algorithm/gossip/push_sum_overlap.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <utility>
#include <vector>

#include "sotto/algorithm/compute.h"
#include "sotto/algorithm/gossip/changing_peers.h"
#include "sotto/algorithm/gossip/gossip.h"
#include "sotto/algorithm/gossip/model_gossiper.h"
#include "sotto/algorithm/gossip/pushed_model.h"
#include "sotto/comm/comm_thread.h"
#include "sotto/core/state.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

class PushSumOverlap final : public Algorithm, private Elastic {
 public:
  PushSumOverlap(std::uint64_t synch_freq, const AlgorithmOptions& options, ModelGossiper gossiper,
                 Communicator& communicator)
      : Algorithm({.rhythm = {0, synch_freq * gossiper.topology().period()}, .turns = {synch_freq, 1, 1, 1}}, this),
        Elastic({.meets_models = true}),
        synch_freq_(synch_freq),
        options_(options),
        communicator_(communicator),
        gossiper_(std::move(gossiper)),
        peers_(options, communicator.size()),
        stop_delay_([this] { return (peers_.rounds_to_reach_all() + 1) * synch_freq_; }),
        model_("push_sum", gossiper_.size()),
        arriving_(gossiper_.size()) {}

  AlgorithmStatus status() const override { return {"gossip"}; }

  StepReport step(Worker& worker, const StepInput& input) override {
    Timer total, lap;
    StepReport report;
    model_.begin(worker);
    worker.optimiser().begin_step(input.step);
    report.loss = compute_beside(thread_, worker, input.step);
    step_all(worker, model_.x(), input.lr, scratch_);
    if (input.stop) stop_delay_.stop(model_.note(), input.step);
    report.compute = lap.lap();
    if (on_its_way_ && (input.step >= due_ || has_come_)) collect(report.timings);
    if (exchanges(input.step)) send(input, report.timings);  // the last round has been collected by then
    report.wait = lap.lap();
    model_.show(worker);
    report.compute += lap.lap();
    report.stop = input.step >= model_.note().stop_step;
    report.seconds = total.seconds();
    return report;
  }

  StepCost drain() override {
    if (on_its_way_) thread_.wait();
    return {};
  }

  void go_on() override {
    arrive();  // including its wish to stop
    model_.note().stop_step = arriving_note_.stop_step = GossipNote{}.stop_step;
  }

  void average_models(Worker& worker) override {
    Timings unused;
    if (on_its_way_) collect(unused);
    model_.average_models(worker, communicator_);
  }

  // Does not add what is on its way: with synch_freq=1 a run goes on with the same bits whether its state was visited
  // or not.
  void visit_state(StateVisitor& visitor) override {
    gossiper_.visit_state(visitor);
    model_.visit_state(visitor);
    visit_shared(visitor);
    arrive();
    visit_vector(visitor, "push_sum.arriving", arriving_);
    visit_weight(visitor, "push_sum.arriving_weight", arriving_note_.weight);
    visitor.visit("push_sum.due", due_);
    on_its_way_ = has_come_ = has_arrived_ = due_ != 0;
  }

 private:
  std::uint64_t lead() override { return stop_delay_.steps(); }
  void visit_shared(StateVisitor& visitor) override { visitor.visit("push_sum.rounds", rounds_); }

  // Adds what was on its way.
  void take_over(std::span<const FormerRank> each) override {
    model_.take_over(each, [this](StateVisitor& state) {
      visit_state(state);
      Timings unused;
      if (on_its_way_) collect(unused);
    });
  }
  void sync_after_change(Worker& worker, bool is_new) override {
    model_.average_models(worker, communicator_, !is_new);
  }

  void send(const StepInput& input, Timings& timings) {
    if (const auto topology = peers_.begun(input.step)) gossiper_.follow(topology);
    Key key = key_of(options_, communicator_, input);
    key.step = static_cast<std::uint32_t>(rounds_++);
    gossiper_.begin(model_.x(), model_.note(), key, timings);
    due_ = input.step + synch_freq_;
    communicator_.at_step(input.step);
    on_its_way_ = true;
    has_come_ = false;
    thread_.post([this] {
      gossiper_.exchange(communicator_, on_the_way_);
      has_come_ = true;
    });
  }
  // Makes one vector of what came in, which a checkpoint can hold; a vector of zeros if nothing is on its way.
  void arrive() {
    if (has_arrived_) return;
    std::ranges::fill(arriving_, 0.0F);
    arriving_note_ = {.weight = 0};
    if (on_its_way_) gossiper_.finish(arriving_, arriving_note_, on_the_way_);
    has_arrived_ = on_its_way_;
  }
  void collect(Timings& timings) {
    if (!has_arrived_) thread_.wait();
    arrive();
    std::ranges::transform(model_.x(), arriving_, model_.x().begin(), std::plus<>());
    model_.note().weight += arriving_note_.weight;
    model_.note().stop_step = std::min(model_.note().stop_step, arriving_note_.stop_step);
    timings += std::exchange(on_the_way_, {});
    on_its_way_ = has_arrived_ = false;
    due_ = 0;
  }

  std::uint64_t synch_freq_;
  AlgorithmOptions options_;
  Communicator& communicator_;
  ModelGossiper gossiper_;
  ChangingPeers peers_;
  StopDelay stop_delay_;
  PushedModel model_;
  std::vector<float> scratch_;
  std::uint64_t rounds_ = 0;
  // The round that is on its way:
  std::vector<float> arriving_;
  GossipNote arriving_note_;
  Timings on_the_way_;
  std::uint64_t due_ = 0;               // the step after which it is added at the latest
  std::atomic<bool> has_come_ = false;  // the communication thread is done with it
  bool on_its_way_ = false, has_arrived_ = false;
  CommThread thread_;  // last: it is destroyed before what its work uses
};

}  // namespace

std::unique_ptr<Algorithm> make_push_sum_overlap(std::int64_t synch_freq, const AlgorithmOptions& options,
                                                 std::span<const BucketPlan> buckets, Communicator& communicator) {
  return std::make_unique<PushSumOverlap>(static_cast<std::uint64_t>(synch_freq), options,
                                          ModelGossiper(options, buckets, communicator), communicator);
}

}  // namespace sotto
