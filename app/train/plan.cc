#include "app/train/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sotto/aggregate/presets.h"
#include "sotto/aggregate/warmup.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

std::uint64_t whole(std::int64_t option) { return static_cast<std::uint64_t>(std::max<std::int64_t>(0, option)); }

bool passes(std::uint64_t before, std::uint64_t done, std::uint64_t every) {
  return every > 0 && done / every > before / every;
}

}  // namespace

std::string RunPlan::doubt(const AlgorithmSpec& algorithm, std::span<const BucketPlan> buckets) const {
  if (algorithm.entry->graph.used) return "";
  const std::string doubt =
      doubt_about(phases.back().recipe, buckets,  // whoever shows it knows the front end
                  [](std::string_view option, std::string_view value) { return named(option, value); });
  return doubt.empty() ? rate_doubt : doubt;
}

std::vector<std::string> RunPlan::remarks(const Choices& choices) const {
  const TrainOptions& options = choices.options;
  std::vector<std::string> lines;
  if (!remark.empty()) lines.push_back(remark);
  if (runs_to_horizon(choices.schedule) && !options.horizon && 2 * steps <= horizon) {
    lines.push_back(
        fmt::format("the schedule is stretched over the {} steps of {} epochs, and this run ends at step {}; "
                    "{} says otherwise",
                    horizon, options.epochs, steps, named("horizon", std::to_string(steps))));
  }
  if (options.max_steps && steps < static_cast<std::uint64_t>(*options.max_steps)) {
    lines.push_back(fmt::format("warning: {}: the run ends after {} steps, with {} epochs; {} says how many",
                                named("max-steps", std::to_string(*options.max_steps)), steps, options.epochs,
                                named("epochs")));
  }
  if (only_dense()) {
    lines.push_back(
        fmt::format("warning: the codec would begin at step {}, and this run ends at step {}: all of it "
                    "sends more",
                    phases.back().first_step, steps));
  }
  return lines;
}

RunPlan plan_run(const Choices& choices, const Course& course, std::uint64_t dense_steps) {
  const TrainOptions& options = choices.options;
  RunPlan plan;
  plan.epoch = course.scheduled_epoch();
  const std::uint64_t accumulate = plan.epoch.per_step, micro_steps = whole(options.epochs) * plan.epoch.batches;
  plan.steps = course.steps_before(whole(options.epochs));
  if (micro_steps / accumulate == 0) {
    throw ConfigError(fmt::format("{}: {} epochs have only {} micro-steps",
                                  named("accumulate", std::to_string(accumulate)), options.epochs, micro_steps));
  }
  plan.horizon = options.horizon ? whole(*options.horizon) : micro_steps / accumulate;
  if (options.max_steps) plan.steps = std::min(plan.steps, whole(*options.max_steps));
  plan.phases = {{0, choices.recipe}};
  // An optimiser with dense steps already knows the number from the option. The warm-up begins after them.
  const std::uint64_t dense = std::max(dense_steps, whole(options.codec_start_after.value_or(0)));
  if (choices.codec_warmup) {
    Warmup warmup =
        make_warmup(choices.codec_warmup, choices.recipe, plan.epoch, plan.horizon - std::min(dense, plan.horizon));
    plan.phases = std::move(warmup.phases);
    plan.remark = std::move(warmup.remark);
    for (Phase& phase : plan.phases) phase.first_step += dense;
  }
  plan.phases = start_after(dense, std::move(plan.phases));
  if (!options.lr && !choices.codec_warmup) plan.rate_doubt = doubt_about_default_rate("codec", choices.recipe.preset);
  plan.topologies = by_steps(choices.peers, plan.epoch);
  return plan;
}

Calendar::Calendar(const TrainOptions& options, Course course, std::uint64_t steps)
    : eval_freq_(static_cast<std::uint64_t>(options.eval_freq.value_or(0))),
      checkpoint_every_(static_cast<std::uint64_t>(options.checkpoint_every)),
      check_replicas_(static_cast<std::uint64_t>(options.check_replicas)),
      course_(std::move(course)),
      steps_(steps) {}

Calendar::Due Calendar::due(std::uint64_t before, std::uint64_t done) const {
  const bool evaluation =
      eval_freq_ > 0 ? passes(before, done, eval_freq_) : course_.epoch_of(done) > course_.epoch_of(before);
  return {evaluation, passes(before, done, checkpoint_every_), passes(before, done, check_replicas_)};
}

bool Calendar::evaluates_after(std::uint64_t done) const {
  if (done == 0) return false;
  if (eval_freq_ == 0 && done * course_.size().accumulate <= course_.start().position) return false;
  return due(done - 1, done).evaluation;
}

std::uint64_t Calendar::next_meeting(std::uint64_t done) const {
  std::uint64_t next = steps_;
  for (const std::uint64_t every : {checkpoint_every_, eval_freq_}) {
    if (every > 0) next = std::min(next, (done / every + 1) * every);
  }
  if (eval_freq_ > 0) return next;
  return std::min(next, course_.first_step_in(course_.epoch_of(done) + 1));
}

std::uint64_t Calendar::step_of_meeting(std::uint64_t meeting, std::uint64_t made) const {
  if (made < meeting) return made;
  while (meeting < steps_ && next_meeting(meeting) <= made) meeting = next_meeting(meeting);
  return meeting;
}

}  // namespace sotto
