#include "sotto/algorithm/local/local_group.h"

#include <fmt/format.h>

#include <cmath>

#include "sotto/aggregate/auto_codec.h"
#include "sotto/optim/sgd.h"

namespace sotto {
namespace {

// Why a recipe cannot be used on differences of models; empty if it can.
std::string objection(const Recipe& recipe, std::span<const BucketPlan> buckets) {
  if (recipe.by_itself() && recipe.aggregator.entry->name == auto_codec_name) {
    return "auto times whole steps, of which most send nothing here; say which codec";
  }
  if (const std::string made = momentum_of(recipe); !made.empty()) {
    return fmt::format(
        "`{}` makes a momentum of gradients; use `ef`, and `slowmo` or `diloco` for a momentum of what is exchanged",
        made);
  }
  if (recipe.memory && recipe.memory.entry->rate) {
    return fmt::format("`{}` multiplies by the learning rate, which is in them already; use `ef`",
                       recipe.memory.entry->name);
  }
  const auto codec = make_codec(recipe.stages);
  for (const BucketPlan& bucket : buckets) {
    if (codec->contract(bucket.layout).input != Contract::Input::gradient) continue;
    return fmt::format(
        "`{}` is for gradients alone; `sotto codec describe` says which one is for differences of models",
        codec->traits().text);
  }
  return "";
}

// The phases of these options, for an algorithm of this name.
std::vector<Phase> phases_of_differences(std::string_view algorithm, const AlgorithmOptions& options,
                                         std::span<const BucketPlan> buckets) {
  for (const Phase& phase : options.phases) {
    const std::string why = objection(phase.recipe, buckets);
    if (why.empty()) continue;
    throw ConfigError(fmt::format("{}: `{}` exchanges how far ranks went, not gradients: {}",
                                  named(phase.recipe.option, phase.recipe.source_text), algorithm, why));
  }
  return options.phases;
}

}  // namespace

OuterStep::OuterStep(const OuterOptions& options, std::size_t parameters, Following& group)
    : options_(options),
      start_(parameters),
      sgd_(make_sgd({options.momentum, options.nesterov, 0},
                    Layout({{"start", 0, {static_cast<std::int64_t>(parameters)}}}, parameters))),
      group_(group) {}

void OuterStep::begin(std::span<const float> parameters) {
  if (begun_ != 0) return;
  std::ranges::copy(parameters, start_.begin());
  begun_ = 1;
}

void OuterStep::take(const Range& range, std::span<float> mean, double rate) {
  double lr = options_.lr;
  if (options_.in_rates) {
    const auto unit = static_cast<float>(rate);
    for (float& value : mean) value /= unit;
    lr *= rate;
  }
  Optimiser& optimiser = group_.outer(*sgd_);
  optimiser.begin_step(0);  // SGD does the same in each step
  optimiser.apply(std::span(start_).subspan(range.begin, range.size()), mean, range.begin, lr);
}

void OuterStep::visit_state(StateVisitor& visitor) {
  visitor.visit("begun", begun_);
  visit_vector(visitor, "start", start_);
  sgd_->visit_state(visitor);
}

LocalGroup::LocalGroup(std::string_view algorithm, const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                       Communicator& communicator, bool followers, const OuterOptions& outer,
                       std::function<void(StateVisitor&)> visit_own)
    : GroupAggregator(phases_of_differences(algorithm, options, buckets), options, buckets, communicator,
                      {.own_models = true, .followers = followers}),
      outer_(outer, buckets.front().range.end, ranks()),
      visit_own_(std::move(visit_own)) {}

void LocalGroup::visit_shared(StateVisitor& visitor) {
  visit_own_(visitor);
  GroupAggregator::visit_shared(visitor);
}

// The mean of how far ranks went, so that ranks which are all at their common start stay there, to the last bit.
void LocalGroup::sync_after_change(Worker& worker, bool is_new) {
  Communicator& communicator = ranks().communicator();
  const std::span<const float> start = outer_.start({0, worker.parameters().size()});
  std::vector<float> gone(start.size());
  if (outer_.has_begun() && !is_new) std::ranges::transform(worker.parameters(), start, gone.begin(), std::minus());
  float farthest = 0;
  for (const float value : gone) farthest = std::max(farthest, std::abs(value));
  communicator.all_reduce(std::span(&farthest, 1), ReduceOp::max);
  if (farthest > 0) average_members(gone, communicator, !is_new);
  if (outer_.has_begun()) std::ranges::transform(start, gone, worker.parameters().begin(), std::plus());
}

bool LocalGroup::catch_up(Worker& worker, Clock::time_point until) {
  outer_.begin(worker.parameters());
  if (!outer_.catch_up(until)) return false;
  std::ranges::copy(outer_.start({0, worker.parameters().size()}), worker.parameters().begin());
  return true;
}

}  // namespace sotto
