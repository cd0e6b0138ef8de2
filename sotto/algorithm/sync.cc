#include "sotto/algorithm/sync.h"

#include "sotto/algorithm/group_aggregator.h"
#include "sotto/algorithm/step_thread.h"

namespace sotto {
namespace {

// Buckets leave as backward finishes them.
class Sync final : public Algorithm {
 public:
  Sync(const AlgorithmOptions& options, std::span<const BucketPlan> buckets, Communicator& communicator)
      : Algorithm(options, communicator, {}, &aggregator_),
        aggregator_(options.phases, options, buckets, communicator, {.followers = true}),
        thread_(
            buckets.size(), options.overlap,
            [this](std::size_t bucket) { offer_in_place(*worker_, aggregator_.buckets()[bucket]); },
            [this](std::size_t bucket) {
              aggregator_.average(bucket, worker_->gradient(), now_->key, {now_->step, now_->lr}, now_->timings);
            },
            &aggregator_.ranks()) {}

  AlgorithmStatus status() const override { return aggregator_.status(); }
  void enter(std::uint64_t step) override { aggregator_.enter(step); }
  void visit_state(StateVisitor& visitor) override { aggregator_.visit_state(visitor); }

 private:
  void run_step(Worker& worker, Step& now) override {
    worker_ = &worker;
    now_ = &now;
    enter(now.step);
    communicator_.at_step(now.step);
    worker.optimiser().begin_step(now.step);
    thread_.run(worker, now);
    worker.optimiser().apply(worker.parameters(), worker.gradient(), 0, now.lr);
    aggregator_.note();
  }

  GroupAggregator aggregator_;
  Worker* worker_ = nullptr;
  Step* now_ = nullptr;
  BucketThread thread_;  // last: it is destroyed before what its work uses
};

}  // namespace

std::unique_ptr<Algorithm> make_sync(const SyncOptions& own, const AlgorithmOptions& options,
                                     std::span<const BucketPlan> buckets, Communicator& communicator) {
  if (own.priority == "need") return make_sync_by_need(options, buckets, communicator);
  return std::make_unique<Sync>(options, buckets, communicator);
}

OptionTraits sync_with(const AnyOptions& own) {
  const bool ready = own.as<SyncOptions>().priority == "ready";
  return {.elastic = ready, .whole_mean = ready};
}

}  // namespace sotto
