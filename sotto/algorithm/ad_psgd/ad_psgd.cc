#include "sotto/algorithm/ad_psgd/ad_psgd.h"

#include "sotto/aggregate/aggregate.h"
#include "sotto/algorithm/ad_psgd/averager.h"

namespace sotto {
namespace {

class AdPsgd final : public Algorithm, private Elastic, private OwnSpeed {
 public:
  AdPsgd(PairPlan plan, PairedModel model, const AlgorithmOptions& options, Communicator& communicator)
      : Algorithm(options, communicator,
                  {.rhythm = {0, plan.every},
                   .starts_early = true,
                   .counts_together = !plan.each,
                   .can_go_on = !plan.each},  // with count=each, an announced end is final
                  this, this),
        Elastic(true),
        each_(plan.each),
        averager_(std::move(plan), std::move(model), {.seed = options.seed, .generation = options.generation},
                  communicator) {}

  AlgorithmStatus status() const override { return {"pairs", "", averager_.traffic()}; }

  StepCost drain() override {
    averager_.rest(parameters_);
    return {};
  }

  void average_models(Worker& worker) override {
    averager_.rest(parameters_);
    std::vector<float> mean(worker.parameters().begin(), worker.parameters().end());
    aggregate(mean, Op::avg, communicator_);
    std::ranges::copy(mean, worker.parameters().begin());  // a failure leaves the model as it was
  }

  // The model itself is in the worker's parameters.
  void visit_state(StateVisitor& visitor) override { averager_.visit_state(visitor); }

 private:
  void run_step(Worker& worker, Step& now) override {
    Timer lap;
    parameters_ = worker.parameters();
    averager_.read(parameters_);
    now.wait = lap.lap();
    communicator_.at_step(now.step);
    worker.optimiser().begin_step(now.step);
    now.loss = worker.compute_gradient(now.step, {});
    const auto offered = worker.optimiser().offer(worker.gradient(), 0);
    lap.lap();
    (each_ ? now.stops : now.meets) =
        averager_.step([&](std::span<float> x) { worker.optimiser().apply(x, offered, 0, now.lr); }, now.stop,
                       now.timings, now.meeting);
    if (!options_.overlap) averager_.wait_for_answer();
    now.wait += lap.lap();
  }

  // Everything starts over but the models, which are in the workers' parameters.
  void take_over(std::span<const FormerRank> each) override { averager_.take_over(each); }
  void sync_after_change(Worker& worker, bool is_new) override {
    average_members(worker.parameters(), communicator_, !is_new);
  }

  // The mean of all ranks' steps, so that the rate falls with what all of them together have done.
  std::uint64_t rate_step() const override {
    return averager_.known_steps() / static_cast<std::uint64_t>(communicator_.size());
  }
  std::vector<std::uint64_t> rank_steps() const override { return averager_.steps(); }
  std::uint64_t exchange_count() const override { return averager_.exchanges(); }
  std::uint64_t exchange_bytes() const override { return averager_.exchange_bytes(); }
  void abandon() override { averager_.abandon(parameters_); }
  void begin_at(std::uint64_t steps) override { averager_.begin_at(steps); }

  bool each_;
  std::span<float> parameters_;  // the worker's, from its first step on
  Averager averager_;
};

}  // namespace

std::unique_ptr<Algorithm> make_ad_psgd(const AdPsgdOptions& own, const AlgorithmOptions& options,
                                        std::span<const BucketPlan> buckets, Communicator& communicator) {
  const Topology topology = make_topology(options.topology, communicator.size());
  return std::make_unique<AdPsgd>(
      pair_plan(topology, communicator.rank(), static_cast<std::uint64_t>(own.every), own.count == "each"),
      PairedModel(options.recipe(), buckets, std::make_shared<ThreadPool>(options.codec_threads)), options,
      communicator);
}

OptionTraits ad_psgd_with(const AnyOptions& own) { return {.elastic = own.as<AdPsgdOptions>().count == "all"}; }

std::string problem_of_ad_psgd(const Topology& topology, const Mixing& mixing) {
  if (mixing.text() != "uniform")
    return "two ranks go half of the way to each other: leave " + named("mixing") + " out";
  return no_pairs(topology);
}

}  // namespace sotto
