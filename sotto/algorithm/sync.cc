#include "sotto/algorithm/sync.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <limits>

#include "sotto/algorithm/bucket_thread.h"
#include "sotto/algorithm/compute.h"
#include "sotto/algorithm/follower.h"
#include "sotto/algorithm/roll_call.h"
#include "sotto/algorithm/sync_by_need.h"
#include "sotto/core/options.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

class Sync final : public Algorithm, private Elastic {
 public:
  Sync(const AlgorithmOptions& options, std::span<const BucketPlan> buckets, Communicator& communicator)
      : Algorithm({}, this),
        Elastic({.has_followers = true}),
        options_(options),
        buckets_(buckets.begin(), buckets.end()),
        communicator_(communicator),
        aggregator_(options.phases, buckets_, communicator.rank(), communicator.size(),
                    std::make_shared<ThreadPool>(options.codec_threads)),
        thread_(
            buckets_.size(), options.overlap, [this](std::size_t bucket) { offer(bucket); },
            [this](std::size_t bucket) { average(bucket); }, &communicator) {}
  ~Sync() override { roll_call_.leave(); }

  AlgorithmStatus status() const override { return {std::string(aggregator_.name()), aggregator_.remark()}; }
  void enter(std::uint64_t step) override { aggregator_.enter(step); }

  StepReport step(Worker& replica, const StepInput& input) override {
    const Timer total;
    enter(input.step);
    report_ = {};
    Worker& worker = follows() ? follower_.of(replica) : replica;
    worker_ = &worker;
    key_ = key_of(options_, communicator_, input);
    step_ = {input.step, input.lr};
    communicator_.at_step(input.step);
    worker.optimiser().begin_step(input.step);
    notes_.stop = input.stop ? 1.0F : 0.0F;
    roll_call_.begin();
    thread_.post([this] { agree(); });
    thread_.run(worker, input.step, report_, [this] { roll_call_.leave(); });
    worker.optimiser().apply(worker.parameters(), worker.gradient(), 0, input.lr);
    report_.stop = notes_.stop > 0;
    report_.seconds = total.seconds();
    notes_.seconds = static_cast<float>(report_.seconds);
    report_.compute = report_.seconds - report_.wait;
    return report_;
  }

  void visit_state(StateVisitor& visitor) override { aggregator_.visit_state(visitor); }

 private:
  void visit_shared(StateVisitor& visitor) override { aggregator_.visit_shared(visitor); }
  void take_over(std::span<const FormerRank> each) override { aggregator_.take_over(each); }

  void set_weight(float weight, const std::function<bool()>& /*stops*/) override { weight_ = weight; }
  std::size_t kept_bytes() const override { return follower_.kept_bytes(); }
  bool catch_up(Worker& worker, Clock::time_point until) override { return follower_.catch_up(worker, until); }

  bool follows() const { return weight_ == 0; }
  // Ranks agree on whether any of them was asked to stop. That travels while forward runs, so it costs a few bytes and
  // no time. Followers wait for the others' first bucket, so they need a roll call if steps are long.
  void agree() {
    if (weight_ == 1) return communicator_.all_reduce(std::span(&notes_.stop, 1), ReduceOp::max);
    std::array<float, 2> both{notes_.stop, notes_.seconds};
    communicator_.all_reduce(both, ReduceOp::max);
    notes_.stop = both[0];
    const std::chrono::duration<float> deadline = communicator_.deadlines().least();
    if (both[1] > deadline.count() / 8) roll_call_.run(communicator_);
  }
  void offer(std::size_t index) {
    roll_call_.come();
    const BucketPlan& plan = buckets_[index];
    offer_in_place(*worker_, plan);
    if (weight_ == 0 || weight_ == 1) return;
    const auto offered = worker_->gradient().subspan(plan.range.begin, plan.range.size());
    std::ranges::transform(offered, offered.begin(), [this](float value) { return value * weight_; });
  }
  void average(std::size_t index) {
    const BucketPlan& plan = buckets_[index];
    Bucket bucket{worker_->gradient().subspan(plan.range.begin, plan.range.size()), &plan.layout,
                  static_cast<std::uint16_t>(index)};
    aggregator_.average(bucket, key_, step_, communicator_, report_.timings);
  }

  AlgorithmOptions options_;
  std::vector<BucketPlan> buckets_;
  Communicator& communicator_;
  Phased aggregator_;
  float weight_ = 1;
  Follower follower_;  // while this rank is one
  Worker* worker_ = nullptr;
  Key key_;
  StepContext step_;
  StepReport report_;  // its timings belong to the communication thread until run() returns
  struct Notes {
    float stop = 0;                                          // above 0: some rank was asked to stop
    float seconds = std::numeric_limits<float>::infinity();  // of this rank's last step
  } notes_;
  RollCall roll_call_;
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
