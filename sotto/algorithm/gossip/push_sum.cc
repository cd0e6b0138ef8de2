#include "sotto/algorithm/gossip/push_sum.h"

#include <utility>
#include <vector>

#include "sotto/algorithm/bucket_thread.h"
#include "sotto/algorithm/compute.h"
#include "sotto/algorithm/gossip/changing_peers.h"
#include "sotto/algorithm/gossip/gossip.h"
#include "sotto/algorithm/gossip/push_sum_overlap.h"
#include "sotto/algorithm/gossip/pushed_model.h"
#include "sotto/core/options.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

// Buckets leave as backward finishes them: the step of a bucket needs no other bucket's gradient, and the gradient is
// taken at z, which does not change meanwhile.
class PushSum final : public Algorithm, private Elastic {
 public:
  PushSum(const AlgorithmOptions& options, std::span<const BucketPlan> buckets, std::vector<Gossiper> gossipers,
          Communicator& communicator)
      : Algorithm({.rhythm = {0, gossipers.front().topology().period()}}, this),
        Elastic({.meets_models = true}),
        options_(options),
        buckets_(buckets.begin(), buckets.end()),
        communicator_(communicator),
        gossipers_(std::move(gossipers)),
        peers_(options, communicator.size()),
        stop_delay_([this] { return peers_.rounds_to_reach_all() + 1; }),
        model_("push_sum", buckets_.front().range.end),
        thread_(
            buckets_.size(), options.overlap, [this](std::size_t bucket) { advance(bucket); },
            [this](std::size_t bucket) { mix(bucket); }) {}

  AlgorithmStatus status() const override { return {"gossip"}; }

  StepReport step(Worker& worker, const StepInput& input) override {
    const Timer total;
    report_ = {};
    worker_ = &worker;
    lr_ = input.lr;
    key_ = key_of(options_, communicator_, input);
    key_.step = static_cast<std::uint32_t>(rounds_);
    model_.begin(worker);
    worker.optimiser().begin_step(input.step);
    communicator_.at_step(input.step);
    if (const auto topology = peers_.begun(input.step)) {
      for (Gossiper& gossiper : gossipers_) gossiper.follow(topology);
    }
    if (input.stop) stop_delay_.stop(model_.note(), input.step);
    thread_.run(worker, input.step, report_);
    model_.note() = mixed_;
    ++rounds_;
    model_.show(worker);
    report_.stop = input.step >= model_.note().stop_step;
    report_.seconds = total.seconds();
    report_.compute = report_.seconds - report_.wait;
    return report_;
  }

  void go_on() override { model_.note().stop_step = GossipNote{}.stop_step; }

  void average_models(Worker& worker) override { model_.average_models(worker, communicator_); }

  void visit_state(StateVisitor& visitor) override {
    visit_gossipers(visitor, gossipers_);
    model_.visit_state(visitor);
    visit_shared(visitor);
  }

 private:
  std::uint64_t lead() override { return stop_delay_.steps(); }
  void visit_shared(StateVisitor& visitor) override { visitor.visit("push_sum.rounds", rounds_); }

  void take_over(std::span<const FormerRank> each) override {
    model_.take_over(each, [this](StateVisitor& state) { visit_state(state); });
  }
  void sync_after_change(Worker& worker, bool is_new) override {
    model_.average_models(worker, communicator_, !is_new);
  }

  std::span<float> x_of(const Range& range) { return model_.x().subspan(range.begin, range.size()); }

  // Takes this rank's own step.
  void advance(std::size_t index) {
    const Range range = buckets_[index].range;
    step_stretch(*worker_, x_of(range), range.begin, lr_, scratch_);
  }

  void mix(std::size_t index) {
    mixed_ = model_.note();  // the same for each bucket
    gossipers_[index].mix(x_of(buckets_[index].range), mixed_, key_, communicator_, report_.timings);
  }

  AlgorithmOptions options_;
  std::vector<BucketPlan> buckets_;
  Communicator& communicator_;
  std::vector<Gossiper> gossipers_;  // one per bucket
  ChangingPeers peers_;
  StopDelay stop_delay_;
  PushedModel model_;
  std::vector<float> scratch_;
  std::uint64_t rounds_ = 0;
  // Of the current step:
  Worker* worker_ = nullptr;
  Key key_;
  double lr_ = 0;
  StepReport report_;  // its timings belong to the communication thread until wait()
  GossipNote mixed_;
  BucketThread thread_;  // last: it is destroyed before what its work uses
};

}  // namespace

std::unique_ptr<Algorithm> make_push_sum(const PushSumOptions& own, const AlgorithmOptions& options,
                                         std::span<const BucketPlan> buckets, Communicator& communicator) {
  if (own.overlap) return make_push_sum_overlap(own.synch_freq, options, buckets, communicator);
  return std::make_unique<PushSum>(options, buckets, make_gossipers(options, buckets, communicator), communicator);
}

OptionTraits push_sum_with(const AnyOptions& own) {
  return {.elastic = true, .varies = own.as<PushSumOptions>().synch_freq > 1};
}

}  // namespace sotto
