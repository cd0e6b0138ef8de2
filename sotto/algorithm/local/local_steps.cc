#include "sotto/algorithm/local/local_steps.h"

#include <fmt/format.h>

#include <cmath>

#include "sotto/aggregate/aggregate.h"

namespace sotto {
namespace {

ExchangeSchedule schedule_of(const LocalPlan& plan, std::size_t buckets) {
  if (plan.shards > buckets) {
    throw ConfigError(fmt::format("{}: shards={} of {} buckets; say fewer, or make buckets smaller with {}",
                                  named("algorithm", plan.name), plan.shards, buckets, named("buckets")));
  }
  return {plan.h, plan.after, plan.shards, buckets};
}

}  // namespace

LocalSteps::LocalSteps(const LocalPlan& plan, const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                       Communicator& communicator)
    : Algorithm(options, communicator, {.rhythm = {plan.after, plan.h}, .schedule = schedule_of(plan, buckets.size())},
                &group_),
      plan_(plan),
      schedule_(traits().schedule),
      shards_(plan.shards),
      group_(plan.name, options, buckets, communicator,
             plan.shards == 1 && plan.overlap == 0 && plan.buffers == Buffers::keep, plan.outer,
             [this](StateVisitor& visitor) { visit_own(visitor); }),
      thread_(&group_.ranks()) {
  if (plan_.overlap > 0) {
    on_its_way_.resize(buckets.front().range.end);
    deltas_ = on_its_way_;
  }
}

void LocalSteps::run_step(Worker& worker, Step& now) {
  prepare(worker, now);
  thread_.compute(worker, now);
  collect(now);
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    if (schedule_.due(now.step, s)) open(shards_[s], now);
  }
  for (std::size_t b = 0; b < group_.buckets().size(); ++b) {
    advance(worker, b, now.lr);
    if (shard_of(b).arrives) settle(worker, b, now.lr);
    if (!leaves(b, now.step)) continue;
    offer(worker, b);
    if (options_.overlap) post(b);
  }
  finish(worker, now);
  now.timings = std::exchange(done_, {});
  now.queue = thread_.take_waits().mean();
  if (now.stops) asked_ = false;
}

void LocalSteps::prepare(Worker& worker, const Step& now) {
  if (plan_.buffers == Buffers::reset && !worker.optimiser().may_reset_buffers()) {
    throw ConfigError(
        fmt::format("{}: buffers=reset: the optimiser corrects its buffers by the number of steps since the first one; "
                    "say buffers=keep or average, or {}",
                    named("algorithm", plan_.name), named("optimiser", "sgd")));
  }
  if (group_.outer().leaves_mean() && !worker.optimiser().to_evaluate().empty()) {
    throw ConfigError(
        fmt::format("{} and {}: a mean of iterates would lack those that an outer step makes; leave them "
                    "out with {}, or take local",
                    named("ema"), named("average-iterates"), plan_.name));
  }
  const bool divides = std::isnormal(static_cast<float>(now.lr)) && now.lr > 0;
  if (group_.outer().in_rates() && schedule_.any_due(now.step) && !divides) {
    throw ConfigError(fmt::format(
        "{}: its momentum is in units of the learning rate, which is {} at step {}: use a schedule of rates "
        "above 0",
        named("algorithm", plan_.name), now.lr, now.step));
  }
  group_.outer().begin(worker.parameters());
  if (plan_.overlap == 0) deltas_ = worker.gradient();  // nobody needs it after the optimiser's step
  asked_ = asked_ || now.stop;
  worker.optimiser().begin_step(now.step);
}

// Waits for the shards that are due.
void LocalSteps::collect(Step& now) {
  bool any = false;
  for (Shard& shard : shards_) any |= shard.arrives = shard.due != 0 && shard.due <= now.step;
  if (!any) return;
  wait(now);
  for (Shard& shard : shards_) {
    if (!shard.arrives) continue;
    shard.due = 0;
    now.stops |= shard.stop > 0;
  }
}

// Begins the exchange of a shard. Before its buckets are exchanged, ranks agree on whether any rank was asked to stop.
void LocalSteps::open(Shard& shard, const Step& now) {
  shard.key = now.key;
  shard.stop = asked_ ? 1.0F : 0.0F;
  shard.due = plan_.overlap == 0 ? 0 : now.step + plan_.overlap;
  thread_.post([this, &shard] {
    communicator_.at_step(shard.key.step);
    group_.enter(shard.key.step);
    group_.ranks().agree(shard.stop);
  });
}

// Takes this rank's own step.
void LocalSteps::advance(Worker& worker, std::size_t bucket, double lr) {
  const Range range = group_.buckets()[bucket].range;
  step_stretch(worker, worker.parameters().subspan(range.begin, range.size()), range.begin, lr, scratch_);
}

void LocalSteps::offer(Worker& worker, std::size_t bucket) {
  const Range range = group_.buckets()[bucket].range;
  const auto gone = deltas_.subspan(range.begin, range.size());
  std::ranges::transform(group_.outer().start(range), worker.parameters().subspan(range.begin, range.size()),
                         gone.begin(), std::minus<>());
}

void LocalSteps::post(std::size_t bucket) {
  thread_.post_measured(
      [this, bucket] { group_.average(bucket, deltas_, shard_of(bucket).key, {.what = "difference"}, timings_); });
}

void LocalSteps::settle(Worker& worker, std::size_t bucket, double lr) {
  const Range range = group_.buckets()[bucket].range;
  group_.outer().take(range, deltas_.subspan(range.begin, range.size()), lr);
  const auto start = group_.outer().start(range);
  const auto x = worker.parameters().subspan(range.begin, range.size());
  if (plan_.overlap == 0) {
    std::ranges::copy(start, x.begin());
    return;
  }
  const auto own = static_cast<float>(plan_.alpha), other = static_cast<float>(1 - plan_.alpha);
  std::ranges::transform(x, start, x.begin(), [&](float mine, float all) { return own * mine + other * all; });
}

// Sends what was not sent while computing. If plan_.overlap is 0, applies what was exchanged.
void LocalSteps::finish(Worker& worker, Step& now) {
  if (!schedule_.any_due(now.step)) return;
  for (std::size_t b = 0; !options_.overlap && b < group_.buckets().size(); ++b) {
    if (leaves(b, now.step)) post(b);
  }
  if (plan_.overlap == 0 || !options_.overlap) wait(now);
  if (plan_.overlap > 0) return;
  for (std::size_t b = 0; b < group_.buckets().size(); ++b) {
    if (leaves(b, now.step)) settle(worker, b, now.lr);
  }
  for (std::size_t s = 0; s < shards_.size(); ++s) now.stops |= schedule_.due(now.step, s) && shards_[s].stop > 0;
  if (plan_.buffers == Buffers::reset) {
    EachVector reset([](std::vector<float>& values) { std::ranges::fill(values, 0.0F); });
    worker.optimiser().visit_buffers(reset);
  } else if (plan_.buffers == Buffers::average) {
    EachVector average([this](std::vector<float>& values) { aggregate(values, Op::avg, communicator_); });
    worker.optimiser().visit_buffers(average);
  }
}

void LocalSteps::wait(Step& now) {
  thread_.wait(now);
  done_ += std::exchange(timings_, {});
  group_.note();
}

AlgorithmStatus LocalSteps::status() const {
  AlgorithmStatus status{group_.status().aggregator, plan_.remark};
  if (const std::string& more = group_.status().remark; !more.empty()) {
    status.remark += (status.remark.empty() ? "" : "; ") + more;
  }
  return status;
}

void LocalSteps::enter(std::uint64_t step) {
  drain();
  group_.enter(step);
  group_.note();
}

StepCost LocalSteps::drain() {
  Step unused;
  wait(unused);
  return {};
}

void LocalSteps::go_on() {
  asked_ = false;
  for (Shard& shard : shards_) shard.stop = 0;
}

void LocalSteps::average_models(Worker& worker) {
  drain();
  for (std::size_t b = 0; b < group_.buckets().size(); ++b) {
    if (shard_of(b).due != 0) settle(worker, b, 0);  // the rate counts only without overlap
  }
  for (Shard& shard : shards_) shard.due = 0;
  group_.ranks().average_models(worker.parameters());
}

// Visits the state without the aggregator's. A wish to stop is not part of the state, because it does not hold for a
// run that continues from there.
void LocalSteps::visit_own(StateVisitor& visitor) {
  ScopedState own(visitor, plan_.name);
  group_.outer().visit_state(own);
  if (plan_.overlap == 0) return;
  visit_vector(own, "on_its_way", on_its_way_);
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    own.visit(fmt::format("due/{}", s), shards_[s].due);
  }
}

void LocalSteps::visit_state(StateVisitor& visitor) {
  visit_own(visitor);
  group_.visit_state(visitor);
}

}  // namespace sotto
