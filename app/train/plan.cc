#include "app/train/plan.h"

#include <fmt/format.h>

#include <charconv>

#include "sotto/aggregate/presets.h"

namespace sotto {
namespace {

std::uint64_t whole(std::int64_t option) { return static_cast<std::uint64_t>(std::max<std::int64_t>(0, option)); }

bool passes(std::uint64_t before, std::uint64_t done, std::uint64_t every) {
  return every > 0 && done / every > before / every;
}

}  // namespace

Course::Course(const Epochs& epochs, const StepSize& size)
    : batches_(epochs.each), accumulate_(size.accumulate), size_(size), epochs_(epochs) {}

// How far the run is at the beginning of this step, in batches of the first start, rounded down.
std::uint64_t Course::batches_at(std::uint64_t step) const {
  const Epochs::Place place = epochs_.at(step * size_.accumulate);
  const std::uint64_t made = place.epoch == epochs_.epoch ? made_ : 0;
  return place.epoch * batches_ + made + place.index * (batches_ - made) / place.positions;
}

double Course::epochs_at(std::uint64_t step) const {
  const Epochs::Place place = epochs_.at(step * size_.accumulate);
  const std::uint64_t made = place.epoch == epochs_.epoch ? made_ : 0;
  const double since = static_cast<double>(place.index * (batches_ - made)) / static_cast<double>(place.positions);
  return (static_cast<double>(place.epoch * batches_ + made) + since) / static_cast<double>(batches_);
}

std::uint64_t Course::first_step_in(std::uint64_t epoch) const {
  return (epochs_.begin_of(epoch) + size_.accumulate - 1) / size_.accumulate;
}

Course Course::changed(std::uint64_t step, const StepSize& size) const {
  const Epochs::Place place = epochs_.at(step * size_.accumulate);
  Course course = *this;
  course.size_ = size;
  if (place.epoch != epochs_.epoch) course.read_.clear();
  if (place.index > 0) course.read_.push_back({size_.ranks, size_.batch, place.index});
  course.made_ = batches_at(step) - place.epoch * batches_;
  course.epochs_.first = step * size.accumulate;
  course.epochs_.epoch = place.epoch;
  return course;
}

std::string Course::text() const {
  std::string text = fmt::format("{} {} {} {} {} {} {} {} {} {}", batches_, accumulate_, size_.ranks, size_.batch,
                                 size_.accumulate, epochs_.each, epochs_.first, epochs_.epoch, epochs_.left, made_);
  for (const Reading& read : read_) text += fmt::format(" {} {} {}", read.ranks, read.batch, read.positions);
  return text;
}

Course Course::of_text(std::string_view text) {
  std::vector<std::uint64_t> numbers;
  const auto fail = [&] { throw FileError(fmt::format("`{}` is no course of a run", text.substr(0, 60))); };
  for (const char* at = text.data(); at != text.data() + text.size();) {
    const auto [end, error] = std::from_chars(at, text.data() + text.size(), numbers.emplace_back());
    if (error != std::errc()) fail();
    at = end == text.data() + text.size() ? end : end + 1;
  }
  constexpr std::size_t own = 10, of_each = 3;
  if (numbers.size() < own || (numbers.size() - own) % of_each != 0) fail();
  const auto& n = numbers;
  Course course;
  course.batches_ = n[0];
  course.accumulate_ = n[1];
  course.size_ = {n[2], n[3], n[4]};
  course.epochs_ = {n[5], n[6], n[7], n[8]};
  course.made_ = n[9];
  for (std::size_t i = own; i < n.size(); i += of_each) course.read_.push_back({n[i], n[i + 1], n[i + 2]});
  const bool any_zero =
      std::ranges::any_of(std::span(n).first(6), [](std::uint64_t number) { return number == 0; }) ||
      std::ranges::any_of(course.read_, [](const Reading& r) { return r.ranks == 0 || r.batch == 0; });
  if (any_zero || course.made_ > course.batches_) fail();
  return course;
}

std::string RunPlan::doubt(const AlgorithmSpec& algorithm, std::span<const BucketPlan> buckets) const {
  if (algorithm.entry->graph.used) return "";
  const std::string doubt =
      warning_about(phases.back().recipe, buckets,  // options are marked; the front end spells them
                    [](std::string_view option, std::string_view value) { return named(option, value); });
  return doubt.empty() ? rate_warning : doubt;
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
  // The dense steps at the beginning: of the optimiser, or by the option, which an optimiser with such steps has taken
  // over. The warm-up begins after them.
  const std::uint64_t dense = std::max(dense_steps, whole(options.codec_start_after.value_or(0)));
  if (choices.codec_warmup) {
    Warmup warmup =
        make_warmup(choices.codec_warmup, choices.recipe, plan.epoch, plan.horizon - std::min(dense, plan.horizon));
    plan.phases = std::move(warmup.phases);
    plan.remark = std::move(warmup.remark);
    for (Phase& phase : plan.phases) phase.first_step += dense;
  }
  plan.phases = start_after(dense, std::move(plan.phases));
  if (!options.lr && !choices.codec_warmup)
    plan.rate_warning = warning_about_default_rate("codec", choices.recipe.preset);
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
