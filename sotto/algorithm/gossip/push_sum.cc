#include "sotto/algorithm/gossip/gossip.h"

#include <utility>
#include <vector>

#include "sotto/algorithm/gossip/gossip_step.h"
#include "sotto/algorithm/step_thread.h"
#include "sotto/algorithm/worker.h"
#include "sotto/core/options.h"

namespace sotto {
namespace {

// Buckets leave as backward finishes them: the step of a bucket needs no other bucket's gradient, and the gradient is
// taken at z, which does not change meanwhile.
class PushSum final : public PushSumStep {
 public:
  PushSum(const AlgorithmOptions& options, std::span<const BucketPlan> buckets, std::vector<Gossiper> gossipers,
          Communicator& communicator)
      : PushSumStep("push_sum", buckets.front().range.end, options, communicator,
                    {.rhythm = {0, gossipers.front().topology().period()}},
                    [this] { return peers_.rounds_to_reach_all() + 1; }),
        buckets_(buckets.begin(), buckets.end()),
        gossipers_(std::move(gossipers)),
        peers_(options, communicator.size()),
        thread_(
            buckets_.size(), options.overlap, [this](std::size_t bucket) { advance(bucket); },
            [this](std::size_t bucket) { mix(bucket); }) {}

  void visit_state(StateVisitor& visitor) override {
    visit_gossipers(visitor, gossipers_);
    PushSumStep::visit_state(visitor);
    visit_shared(visitor);
  }
  void visit_shared(StateVisitor& visitor) override { visitor.visit("push_sum.rounds", rounds_); }

 private:
  void gossip(Worker& worker, Step& now) override {
    worker_ = &worker;
    now_ = &now;
    now.key.step = static_cast<std::uint32_t>(rounds_);
    begin(worker);
    worker.optimiser().begin_step(now.step);
    communicator_.at_step(now.step);
    if (const auto topology = peers_.begun(now.step)) {
      for (Gossiper& gossiper : gossipers_) gossiper.follow(topology);
    }
    thread_.run(worker, now);
    note_ = mixed_;
    ++rounds_;
    show(worker);
  }

  std::span<float> x_of(const Range& range) { return std::span(x_).subspan(range.begin, range.size()); }

  // Takes this rank's own step.
  void advance(std::size_t index) {
    const Range range = buckets_[index].range;
    step_stretch(*worker_, x_of(range), range.begin, now_->lr, scratch_);
  }

  void mix(std::size_t index) {
    mixed_ = note_;  // the same for each bucket
    gossipers_[index].mix(x_of(buckets_[index].range), mixed_, now_->key, communicator_, now_->timings);
  }

  std::vector<BucketPlan> buckets_;
  std::vector<Gossiper> gossipers_;  // one per bucket
  ChangingPeers peers_;
  std::vector<float> scratch_;
  std::uint64_t rounds_ = 0;
  // Of the current step:
  Worker* worker_ = nullptr;
  Step* now_ = nullptr;
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
