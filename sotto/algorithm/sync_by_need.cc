#include "sotto/algorithm/group_aggregator.h"
#include "sotto/algorithm/step_thread.h"
#include "sotto/algorithm/sync.h"
#include "sotto/core/thread.h"

namespace sotto {
namespace {

class SyncByNeed final : public Algorithm {
 public:
  SyncByNeed(const AlgorithmOptions& options, std::span<const BucketPlan> buckets, Communicator& communicator)
      : Algorithm(options, communicator, {}, &aggregator_),
        aggregator_(options.phases, options, buckets, communicator, {}),
        calls_{.needed = [this](std::size_t bucket) { settle(bucket); },
               .ready = [this](std::size_t bucket) { on_ready(bucket); },
               .is_void = [this](bool overflows) { return agree(overflows); }},
        buckets_(buckets.size()) {}

  AlgorithmStatus status() const override { return aggregator_.status(); }

  // REQUIRES drain().
  void enter(std::uint64_t step) override {
    aggregator_.enter(step);
    aggregator_.note();
  }

  StepCost drain() override {
    const Timer timer;
    Step rest;
    now_ = &rest;
    settle_all();
    account();
    aggregator_.note();
    return rest.report(timer.seconds());
  }

  void visit_state(StateVisitor& visitor) override { aggregator_.visit_state(visitor); }

 private:
  struct Part {
    bool open = false;  // its gradient is on its way, or its mean was not applied
    std::atomic<bool> exchanged = false;
  };

  // --- on the thread that computes ---------------------------------------------------------------------------------

  void run_step(Worker& worker, Step& now) override {
    now_ = &now;
    if (worker_ != &worker) {
      settle_all();
      worker_ = &worker;
    }
    begun_ = void_ = false;
    thread_.compute(worker, now, calls_, [this] {
      begin();
      while (!void_ && ready_ < buckets_.size()) post(ready_);
    });
    if (!options_.overlap) {
      settle_all();
      aggregator_.note();
    }
    thread_.wait(now, [this] { return stop_is_known_.load(std::memory_order_acquire); });
    now.stops = stop_ > 0;
    account();
  }

  // Adds the time that exchanges of any step took since the last call.
  void account() {
    const Lock lock(spent_mutex_);
    now_->timings += std::exchange(spent_, {});
    now_->queue += thread_.take_waits().seconds / static_cast<double>(std::max<std::size_t>(1, buckets_.size()));
  }

  // Applies the mean of this bucket, if that was not done: then its parameters are those of this step.
  void settle(std::size_t index) {
    Part& part = buckets_[index];
    if (!part.open) return;
    thread_.wait(*now_, [&part] { return part.exchanged.load(std::memory_order_acquire); });
    if (!part.exchanged) throw std::logic_error("a step continues after one that failed");
    const Range range = aggregator_.buckets()[index].range;
    worker_->optimiser().apply(worker_->parameters().subspan(range.begin, range.size()),
                               worker_->gradient().subspan(range.begin, range.size()), range.begin, lr_);
    part.open = false;
  }

  void settle_all() {
    for (std::size_t b = buckets_.size(); b-- > 0;) settle(b);
    thread_.wait(*now_);
  }

  // Begins a step, before its first bucket is ready: first ends the step before it.
  void begin() {
    if (std::exchange(begun_, true)) return;
    settle_all();
    lr_ = now_->lr;
    key_ = now_->key;
    communicator_.at_step(now_->step);
    enter(now_->step);
    worker_->optimiser().begin_step(now_->step);
    stop_ = now_->stop ? 1.0F : 0.0F;
    stop_is_known_ = false;
    ready_ = exchanged_ = 0;
    thread_.post([this] {
      communicator_.all_reduce(std::span(&stop_, 1), ReduceOp::max);
      stop_is_known_.store(true, std::memory_order_release);
    });
  }

  void on_ready(std::size_t index) {
    begin();
    if (options_.overlap && !void_) post(index);
  }

  bool agree(bool overflows) {
    begin();
    return void_ = thread_.any_overflows(overflows, communicator_, *now_);
  }

  // REQUIRES that buckets come in index order, the same on every rank.
  void post(std::size_t index) {
    Part& part = buckets_[index];
    offer_in_place(*worker_, aggregator_.buckets()[index]);
    part.open = true;
    part.exchanged = false;
    ready_.store(index + 1, std::memory_order_release);
    thread_.post_measured([this] { exchange_one(); });
  }

  // --- on the communication thread ---------------------------------------------------------------------------------

  void exchange_one() {
    Timings timings;
    const std::size_t index = next(timings);
    aggregator_.average(index, worker_->gradient(), key_, {key_.step, lr_}, timings);
    {
      const Lock lock(spent_mutex_);
      spent_ += timings;
    }
    buckets_[index].exchanged.store(true, std::memory_order_release);
  }

  // The bucket to exchange now, the same on all ranks. The first one is bucket 0, which is ready first; the last one is
  // what is left. In between it is the one that forward needs first, which has the largest index, among those that all
  // ranks have ready. Every rank has at least one more ready than were exchanged.
  std::size_t next(Timings& timings) {
    const std::size_t all = buckets_.size(), done = exchanged_++;
    std::size_t end = done == 0 ? 1 : all;
    if (done > 0 && done + 1 < all) {
      const Timer timer;
      auto ready = static_cast<float>(ready_.load(std::memory_order_acquire));
      communicator_.all_reduce(std::span(&ready, 1), ReduceOp::min);
      timings.network += timer.seconds();
      end = static_cast<std::size_t>(ready);
    }
    while (buckets_[--end].exchanged) {
    }
    return end;
  }

  GroupAggregator aggregator_;
  BucketCalls calls_;
  std::vector<Part> buckets_;
  Worker* worker_ = nullptr;
  Step* now_ = nullptr;  // of this step, or of drain()
  bool begun_ = false, void_ = false;

  // Of the step whose buckets are on their way:
  Key key_;
  double lr_ = 0;
  float stop_ = 0;
  std::atomic<bool> stop_is_known_ = false;
  std::atomic<std::size_t> ready_ = 0;
  std::size_t exchanged_ = 0;

  Mutex spent_mutex_;
  Timings spent_ SOTTO_GUARDED_BY(spent_mutex_);
  StepThread thread_;  // last: it is destroyed before what its work uses
};

}  // namespace

std::unique_ptr<Algorithm> make_sync_by_need(const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                                             Communicator& communicator) {
  return std::make_unique<SyncByNeed>(options, buckets, communicator);
}

}  // namespace sotto
