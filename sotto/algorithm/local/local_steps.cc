#include "sotto/algorithm/local/local_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "sotto/aggregate/aggregate.h"
#include "sotto/algorithm/compute.h"
#include "sotto/algorithm/local/differences.h"
#include "sotto/core/error.h"
#include "sotto/core/state.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

Turns turns_of(const LocalPlan& plan, std::size_t buckets) {
  if (plan.shards > buckets) {
    throw ConfigError(fmt::format("{}: shards={} of {} buckets; say fewer, or make buckets smaller with {}",
                                  named("algorithm", plan.name), plan.shards, buckets, named("buckets")));
  }
  return {plan.h, plan.after, plan.shards, buckets};
}

std::size_t size_of(std::span<const BucketPlan> buckets) {
  std::size_t size = 0;
  for (const BucketPlan& plan : buckets) size = std::max(size, plan.range.end);
  return size;
}

}  // namespace

LocalSteps::LocalSteps(const LocalPlan& plan, const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                       Communicator& communicator)
    : Algorithm({.rhythm = {plan.after, plan.h}, .turns = turns_of(plan, buckets.size())}, this),
      Elastic({.meets_models = true,
               .has_followers = plan.shards == 1 && plan.overlap == 0 && plan.buffers == Buffers::keep}),
      plan_(plan),
      options_(options),
      buckets_(buckets.begin(), buckets.end()),
      communicator_(communicator),
      turns_(traits().turns),
      aggregator_(phases_of_differences(plan.name, options, buckets), buckets_, communicator.rank(),
                  communicator.size(), std::make_shared<ThreadPool>(options.codec_threads)),
      outer_(plan.outer, size_of(buckets)),
      shards_(plan.shards) {
  if (plan_.overlap > 0) {
    on_its_way_.resize(size_of(buckets));
    deltas_ = on_its_way_;
  }
  note();
}

StepReport LocalSteps::step(Worker& worker, const StepInput& input) {
  Timer total, lap;
  StepReport report;
  prepare(worker, input);
  call_roll();
  if (!follows()) report.loss = compute_beside(thread_, worker, input.step, {}, [this] { roll_call_.leave(); });
  report.compute = lap.lap();
  collect(input.step, report);
  report.wait = lap.lap();
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    if (turns_.due(input.step, s)) open(shards_[s], input);
  }
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (!follows()) advance(worker, b, input.lr);
    if (shard_of(b).arrives) settle(worker, b, input.lr);
    if (!leaves(b, input.step)) continue;
    offer(worker, b);
    if (options_.overlap) post(b);
  }
  report.compute += lap.lap();
  finish(worker, input, report);
  report.wait += lap.lap();
  report.timings = std::exchange(done_, {});
  report.queue = thread_.take_waits().mean();
  if (report.stop) asked_ = false;
  report.seconds = total.seconds();
  return report;
}

void LocalSteps::prepare(Worker& worker, const StepInput& input) {
  if (plan_.buffers == Buffers::reset && !worker.optimiser().may_reset_buffers()) {
    throw ConfigError(
        fmt::format("{}: buffers=reset: the optimiser corrects its buffers by the number of steps since the first one; "
                    "say buffers=keep or average, or {}",
                    named("algorithm", plan_.name), named("optimiser", "sgd")));
  }
  if (outer_.leaves_mean() && !worker.optimiser().to_evaluate().empty()) {
    throw ConfigError(
        fmt::format("{} and {}: a mean of iterates would lack those that an outer step makes; leave them "
                    "out with {}, or take local",
                    named("ema"), named("average-iterates"), plan_.name));
  }
  const bool divides = std::isnormal(static_cast<float>(input.lr)) && input.lr > 0;
  if (outer_.in_rates() && turns_.any_due(input.step) && !divides) {
    throw ConfigError(fmt::format(
        "{}: its momentum is in units of the learning rate, which is {} at step {}: use a schedule of rates "
        "above 0",
        named("algorithm", plan_.name), input.lr, input.step));
  }
  if (!follows()) outer_.begin(worker.parameters());
  if (plan_.overlap == 0) deltas_ = worker.gradient();  // nobody needs it after the optimiser's step
  asked_ = asked_ || input.stop;
  if (!follows()) worker.optimiser().begin_step(input.step);
}

// If some rank follows, a round begins with a roll call. If that finds somebody gone, throws so before the round ends.
void LocalSteps::call_roll() {
  if (weight_ == 1) return;
  thread_.wait([] { return true; });
  if (std::exchange(called_, true)) return;
  roll_call_.begin();
  thread_.post([this] { roll_call_.run(communicator_); });
}

void LocalSteps::come() {
  if (std::exchange(called_, false)) roll_call_.come();
}

// Waits for the shards that are due.
void LocalSteps::collect(std::uint64_t step, StepReport& report) {
  bool any = false;
  for (Shard& shard : shards_) any |= shard.arrives = shard.due != 0 && shard.due <= step;
  if (!any) return;
  wait();
  for (Shard& shard : shards_) {
    if (!shard.arrives) continue;
    shard.due = 0;
    report.stop |= shard.stop > 0;
  }
}

// Begins the exchange of a shard. Before its buckets, ranks agree on whether any of them was asked to stop.
void LocalSteps::open(Shard& shard, const StepInput& input) {
  shard.key = key_of(options_, communicator_, input);
  shard.stop = asked_ ? 1.0F : 0.0F;
  shard.due = plan_.overlap == 0 ? 0 : input.step + plan_.overlap;
  come();
  thread_.post([this, &shard] {
    communicator_.at_step(shard.key.step);
    aggregator_.enter(shard.key.step);
    if (follows() && stops_ && stops_()) shard.stop = 1;
    communicator_.all_reduce(std::span(&shard.stop, 1), ReduceOp::max);
  });
}

// Takes this rank's own step.
void LocalSteps::advance(Worker& worker, std::size_t bucket, double lr) {
  const Range range = buckets_[bucket].range;
  step_stretch(worker, worker.parameters().subspan(range.begin, range.size()), range.begin, lr, scratch_);
}

void LocalSteps::offer(Worker& worker, std::size_t bucket) {
  const Range range = buckets_[bucket].range;
  const auto gone = deltas_.subspan(range.begin, range.size());
  if (follows()) {
    std::ranges::fill(gone, 0.0F);
    return;
  }
  std::ranges::transform(outer_.start(range), worker.parameters().subspan(range.begin, range.size()), gone.begin(),
                         std::minus<>());
  if (weight_ != 1) std::ranges::transform(gone, gone.begin(), [this](float value) { return value * weight_; });
}

void LocalSteps::post(std::size_t bucket) {
  thread_.post_measured([this, bucket] { exchange(bucket); });
}

void LocalSteps::exchange(std::size_t index) {
  const BucketPlan& plan = buckets_[index];
  Bucket bucket{deltas_.subspan(plan.range.begin, plan.range.size()), &plan.layout, static_cast<std::uint16_t>(index)};
  aggregator_.average(bucket, shard_of(index).key, {.what = "difference"}, communicator_, timings_);
}

void LocalSteps::settle(Worker& worker, std::size_t bucket, double lr) {
  const Range range = buckets_[bucket].range;
  outer_.take(range, deltas_.subspan(range.begin, range.size()), lr);
  if (follows()) return;
  const auto start = outer_.start(range);
  const auto x = worker.parameters().subspan(range.begin, range.size());
  if (plan_.overlap == 0) {
    std::ranges::copy(start, x.begin());
    return;
  }
  const auto own = static_cast<float>(plan_.alpha), other = static_cast<float>(1 - plan_.alpha);
  std::ranges::transform(x, start, x.begin(), [&](float mine, float all) { return own * mine + other * all; });
}

// Sends what was not sent while computing. If plan_.overlap is 0, applies what was exchanged.
void LocalSteps::finish(Worker& worker, const StepInput& input, StepReport& report) {
  if (!turns_.any_due(input.step)) return;
  for (std::size_t b = 0; !options_.overlap && b < buckets_.size(); ++b) {
    if (leaves(b, input.step)) post(b);
  }
  if (plan_.overlap == 0 || !options_.overlap) wait();
  if (plan_.overlap > 0) return;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (leaves(b, input.step)) settle(worker, b, input.lr);
  }
  for (std::size_t s = 0; s < shards_.size(); ++s) report.stop |= turns_.due(input.step, s) && shards_[s].stop > 0;
  if (plan_.buffers == Buffers::reset) {
    EachVector reset([](std::vector<float>& values) { std::ranges::fill(values, 0.0F); });
    worker.optimiser().visit_buffers(reset);
  } else if (plan_.buffers == Buffers::average) {
    EachVector average([this](std::vector<float>& values) { aggregate(values, Op::avg, communicator_); });
    worker.optimiser().visit_buffers(average);
  }
}

void LocalSteps::wait() {
  come();
  thread_.wait();
  done_ += std::exchange(timings_, {});
  note();
}

void LocalSteps::note() {
  status_ = {std::string(aggregator_.name()), plan_.remark};
  if (const std::string of_aggregator = aggregator_.remark(); !of_aggregator.empty()) {
    status_.remark += (status_.remark.empty() ? "" : "; ") + of_aggregator;
  }
}

void LocalSteps::enter(std::uint64_t step) {
  wait();
  aggregator_.enter(step);
  note();
}

StepCost LocalSteps::drain() {
  wait();
  return {};
}

void LocalSteps::go_on() {
  asked_ = false;
  for (Shard& shard : shards_) shard.stop = 0;
}

void LocalSteps::average_models(Worker& worker) {
  wait();
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (shard_of(b).due != 0) settle(worker, b, 0);  // the rate counts only without overlap
  }
  for (Shard& shard : shards_) shard.due = 0;
  if (weight_ != 1) return average_members(worker.parameters(), communicator_, !follows());
  aggregate(worker.parameters(), Op::avg, communicator_);
}

// Visits the state without that of the aggregator. A wish to stop is no part of it: it does not hold for a run that
// goes on from there.
void LocalSteps::visit_own(StateVisitor& visitor) {
  ScopedState own(visitor, plan_.name);
  outer_.visit_state(own);
  if (plan_.overlap == 0) return;
  visit_vector(own, "on_its_way", on_its_way_);
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    own.visit(fmt::format("due/{}", s), shards_[s].due);
  }
}

void LocalSteps::visit_shared(StateVisitor& visitor) {
  visit_own(visitor);
  aggregator_.visit_shared(visitor);
}

void LocalSteps::visit_state(StateVisitor& visitor) {
  visit_own(visitor);
  aggregator_.visit_state(visitor);
  note();
}

void LocalSteps::take_over(std::span<const FormerRank> each) {
  aggregator_.take_over(each);
  note();
}

// The mean of how far ranks went, so that ranks which are all at their common start stay there, to the last bit.
void LocalSteps::sync_after_change(Worker& worker, bool is_new) {
  const std::span<const float> start = outer_.start({0, worker.parameters().size()});
  std::vector<float> gone(start.size());
  if (outer_.has_begun() && !is_new) std::ranges::transform(worker.parameters(), start, gone.begin(), std::minus());
  float farthest = 0;
  for (const float value : gone) farthest = std::max(farthest, std::abs(value));
  communicator_.all_reduce(std::span(&farthest, 1), ReduceOp::max);
  if (farthest > 0) average_members(gone, communicator_, !is_new);
  if (outer_.has_begun()) std::ranges::transform(start, gone, worker.parameters().begin(), std::plus());
}

void LocalSteps::set_weight(float weight, const std::function<bool()>& stops) {
  weight_ = weight;
  stops_ = stops;
  if (follows()) outer_.keep_steps();
}

bool LocalSteps::catch_up(Worker& worker, Clock::time_point until) {
  outer_.begin(worker.parameters());
  if (!outer_.catch_up(until)) return false;
  std::ranges::copy(outer_.start({0, worker.parameters().size()}), worker.parameters().begin());
  return true;
}

}  // namespace sotto
