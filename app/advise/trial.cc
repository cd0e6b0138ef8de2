#include "app/advise/trial.h"

#include <cmath>

#include "sotto/comm/emulated/threads.h"
#include "sotto/core/floats.h"

namespace sotto {
namespace {

const std::vector<float>& gradient_of(const MeasuredCompute& compute, int rank) {
  return compute.gradients[static_cast<std::size_t>(rank) % compute.gradients.size()];
}

// |result - mean| / |mean|, where the mean is over the gradients of all ranks.
double error_of(const MeasuredCompute& compute, int ranks, std::span<const float> result) {
  double lost = 0, all = 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    double mean = 0;
    for (int rank = 0; rank < ranks; ++rank) mean += gradient_of(compute, rank)[i];
    mean /= ranks;
    lost += (result[i] - mean) * (result[i] - mean);
    all += mean * mean;
  }
  return all > 0 ? std::sqrt(lost / all) : 0;
}

// Visits all pieces of work of a step, always in the same order.
template <class F>
void for_each_work(StepTrace& step, F&& f) {
  const auto visit = [&](Trace& trace) {
    for (TracedExchange& exchange : trace.exchanges) f(exchange.work);
    f(trace.rest);
  };
  for (RankTrace& rank : step) {
    visit(rank.agreement);
    for (Trace& bucket : rank.buckets) visit(bucket);
  }
}

std::vector<double> work_of(StepTrace& step) {
  std::vector<double> work;
  for_each_work(step, [&](double seconds) { work.push_back(seconds); });
  return work;
}

}  // namespace

void smooth(std::vector<StepTrace>& steps) {
  std::vector<std::vector<double>> all;
  for (StepTrace& step : steps) all.push_back(work_of(step));
  std::erase_if(all, [&, size = all.front().size()](const auto& work) { return work.size() != size; });
  std::vector<double> medians;
  for (std::size_t i = 0; i < all.front().size(); ++i) {
    std::vector<double> values;
    for (const auto& work : all) values.push_back(work[i]);
    medians.push_back(median(std::move(values)));
  }
  for (StepTrace& step : steps) {
    if (work_of(step).size() != medians.size()) continue;
    auto next = medians.begin();
    for_each_work(step, [&](double& seconds) { seconds = *next++; });
  }
}

TriedMethod try_method(const Recipe& recipe, const MeasuredCompute& compute, const TrialOptions& options) {
  check_aggregator(recipe, compute.buckets);
  const auto ranks = static_cast<std::size_t>(options.ranks);
  TriedMethod tried;
  tried.steps.assign(options.steps, StepTrace(ranks));
  std::vector<double> sent(ranks);
  Turn turn(1);
  run_threads(options.ranks, options.deadline, [&](Communicator& inner) {
    const PlainFloats floats;
    TracedCommunicator communicator(inner, turn);
    const auto rank = static_cast<std::size_t>(communicator.rank());
    const auto aggregator =
        make_aggregator(recipe, compute.buckets, communicator, std::make_shared<ThreadPool>(options.codec_threads));
    std::vector<float> values;
    std::uint64_t before = 0;
    for (std::size_t step = 0; step <= options.steps; ++step) {
      values = gradient_of(compute, communicator.rank());
      const Key key{options.seed, static_cast<std::uint16_t>(rank), 0, static_cast<std::uint32_t>(step)};
      RankTrace traced;
      communicator.take();
      float stop = 0;
      communicator.all_reduce(std::span(&stop, 1), ReduceOp::max);
      traced.agreement = communicator.take();
      for (std::size_t b = 0; b < compute.buckets.size(); ++b) {
        const BucketPlan& plan = compute.buckets[b];
        Bucket bucket{std::span(values).subspan(plan.range.begin, plan.range.size()), &plan.layout,
                      static_cast<std::uint16_t>(b)};
        Timings timings;
        aggregator->average(bucket, key, {step, options.lr}, communicator, timings);
        traced.buckets.push_back(communicator.take());
      }
      if (step > 0) tried.steps[step - 1][rank] = std::move(traced);
      if (step == 0) before = communicator.traffic().bytes_sent;
      if (rank == 0 && step == (recipe.memory ? 0 : options.steps)) {
        tried.relative_error = error_of(compute, options.ranks, values);
      }
    }
    sent[rank] = static_cast<double>(communicator.traffic().bytes_sent - before) / static_cast<double>(options.steps);
    if (rank != 0) return;
    tried.aggregator = aggregator->name();
    tried.remark = aggregator->remark();
  });
  tried.bytes_sent = *std::ranges::max_element(sent);
  smooth(tried.steps);
  return tried;
}

TracedCommunicator::TracedCommunicator(Communicator& inner, Turn& turn)
    : Communicator(inner.rank(), inner.size(), inner.deadlines()), inner_(inner), turn_(turn) {
  turn_.acquire();
  working_.lap();
}

Trace TracedCommunicator::take() {
  trace_.rest = working_.seconds();
  Trace done = std::exchange(trace_, {});
  working_.lap();
  return done;
}

void TracedCommunicator::do_exchange(std::span<const Send> sends, std::span<Recv> recvs) {
  // Takes the turn back also if the exchange fails.
  struct Pause {
    explicit Pause(Turn& turn) : turn_(turn) { turn_.release(); }
    ~Pause() { turn_.acquire(); }
    Turn& turn_;
  };
  TracedExchange& traced = trace_.exchanges.emplace_back();
  traced.work = working_.seconds();
  for (const Send& send : sends) traced.sends.emplace_back(send.peer, send.data.size());
  for (const Recv& recv : recvs) traced.receives.push_back(recv.peer);
  {
    const Pause pause(turn_);
    inner_.at_step(step());
    inner_.exchange(sends, recvs);
  }
  working_.lap();
}

std::unique_ptr<Communicator> TracedCommunicator::do_clone() {
  throw std::logic_error("a traced communicator has no clones");
}

}  // namespace sotto
