#include "sotto/algorithm/sync_by_need.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <utility>

#include "sotto/algorithm/compute.h"
#include "sotto/comm/comm_thread.h"
#include "sotto/core/mutex.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

class SyncByNeed final : public Algorithm, private Elastic {
 public:
  SyncByNeed(const AlgorithmOptions& options, std::span<const BucketPlan> buckets, Communicator& communicator)
      : Algorithm({}, this),
        Elastic({}),
        options_(options),
        communicator_(communicator),
        aggregator_(options.phases, {buckets.begin(), buckets.end()}, communicator.rank(), communicator.size(),
                    std::make_shared<ThreadPool>(options.codec_threads)),
        calls_{.needed = [this](std::size_t bucket) { settle(bucket); },
               .ready = [this](std::size_t bucket) { on_ready(bucket); },
               .is_void = [this](bool overflows) { return agree(overflows); }},
        buckets_(buckets.size()) {
    for (std::size_t b = 0; b < buckets.size(); ++b) buckets_[b].plan = buckets[b];
    note();
  }

  AlgorithmStatus status() const override { return status_; }

  // REQUIRES drain().
  void enter(std::uint64_t step) override {
    aggregator_.enter(step);
    note();
  }

  StepReport step(Worker& worker, const StepInput& input) override {
    const Timer total;
    StepReport report;
    if (worker_ != &worker) {
      settle_all();
      worker_ = &worker;
    }
    input_ = input;
    begun_ = void_ = false;
    waited_ = 0;
    report.loss = compute_beside(thread_, worker, input.step, calls_);
    begin();
    while (!void_ && ready_ < buckets_.size()) post(ready_);
    if (!options_.overlap) {
      settle_all();
      note();
    }
    wait([this] { return stop_is_known_.load(std::memory_order_acquire); });
    report.stop = stop_ > 0;
    report.seconds = total.seconds();
    report.compute = report.seconds - waited_;
    account(report);
    return report;
  }

  StepCost drain() override {
    const Timer timer;
    StepCost cost;
    waited_ = 0;
    settle_all();
    note();
    cost.seconds = timer.seconds();
    cost.compute = cost.seconds - waited_;
    account(cost);
    return cost;
  }

  void visit_state(StateVisitor& visitor) override {
    aggregator_.visit_state(visitor);
    note();
  }

 private:
  void visit_shared(StateVisitor& visitor) override { aggregator_.visit_shared(visitor); }
  void take_over(std::span<const FormerRank> each) override {
    aggregator_.take_over(each);
    note();
  }

  struct Part {
    BucketPlan plan;
    bool open = false;  // its gradient is on its way, or its mean was not applied
    std::atomic<bool> exchanged = false;
  };

  // --- on the thread that computes ---------------------------------------------------------------------------------

  // Copies the aggregator's name and remark, which may change while it works. REQUIRES that nothing is on its way.
  void note() { status_ = {std::string(aggregator_.name()), aggregator_.remark()}; }

  // Adds the time spent waiting, and the time that exchanges of any step took since the last call.
  void account(StepCost& cost) {
    cost.wait += waited_;
    const Lock lock(spent_mutex_);
    cost.timings += std::exchange(spent_, {});
    cost.queue += thread_.take_waits().seconds / static_cast<double>(std::max<std::size_t>(1, buckets_.size()));
  }

  void wait(const std::function<bool()>& enough) {
    const Timer timer;
    thread_.wait(enough);
    waited_ += timer.seconds();
  }

  // Applies the mean of this bucket, if that was not done: then its parameters are those of this step.
  void settle(std::size_t index) {
    Part& part = buckets_[index];
    if (!part.open) return;
    wait([&part] { return part.exchanged.load(std::memory_order_acquire); });
    if (!part.exchanged) throw std::logic_error("a step goes on after one that failed");
    const Range range = part.plan.range;
    worker_->optimiser().apply(worker_->parameters().subspan(range.begin, range.size()),
                               worker_->gradient().subspan(range.begin, range.size()), range.begin, lr_);
    part.open = false;
  }

  void settle_all() {
    for (std::size_t b = buckets_.size(); b-- > 0;) settle(b);
    thread_.wait();
  }

  // Begins a step, before its first bucket is ready: first ends the step before it.
  void begin() {
    if (std::exchange(begun_, true)) return;
    settle_all();
    lr_ = input_.lr;
    key_ = key_of(options_, communicator_, input_);
    communicator_.at_step(input_.step);
    enter(input_.step);
    worker_->optimiser().begin_step(input_.step);
    stop_ = input_.stop ? 1.0F : 0.0F;
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
    const Timer timer;
    void_ = any_overflows(overflows, thread_, communicator_);
    waited_ += timer.seconds();
    return void_;
  }

  // REQUIRES that buckets come in index order, the same on every rank.
  void post(std::size_t index) {
    Part& part = buckets_[index];
    offer_in_place(*worker_, part.plan);
    part.open = true;
    part.exchanged = false;
    ready_.store(index + 1, std::memory_order_release);
    thread_.post_measured([this] { exchange_one(); });
  }

  // --- on the communication thread ---------------------------------------------------------------------------------

  void exchange_one() {
    Timings timings;
    const std::size_t index = next(timings);
    Part& part = buckets_[index];
    Bucket bucket{worker_->gradient().subspan(part.plan.range.begin, part.plan.range.size()), &part.plan.layout,
                  static_cast<std::uint16_t>(index)};
    aggregator_.average(bucket, key_, {key_.step, lr_}, communicator_, timings);
    {
      const Lock lock(spent_mutex_);
      spent_ += timings;
    }
    part.exchanged.store(true, std::memory_order_release);
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

  AlgorithmOptions options_;
  Communicator& communicator_;
  Phased aggregator_;
  AlgorithmStatus status_;  // a copy, because the aggregator may be at work
  BucketCalls calls_;
  std::vector<Part> buckets_;
  Worker* worker_ = nullptr;
  StepInput input_;
  bool begun_ = false, void_ = false;
  double waited_ = 0;

  // Of the step whose buckets are on their way:
  Key key_;
  double lr_ = 0;
  float stop_ = 0;
  std::atomic<bool> stop_is_known_ = false;
  std::atomic<std::size_t> ready_ = 0;
  std::size_t exchanged_ = 0;

  Mutex spent_mutex_;
  Timings spent_ SOTTO_GUARDED_BY(spent_mutex_);
  CommThread thread_;  // last: it is destroyed before what its work uses
};

}  // namespace

std::unique_ptr<Algorithm> make_sync_by_need(const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                                             Communicator& communicator) {
  return std::make_unique<SyncByNeed>(options, buckets, communicator);
}

}  // namespace sotto
