#include "sotto/capi/gradient_averager.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cmath>

#include "sotto/kernels/reduce.h"

namespace sotto {
namespace {

void restore(Aggregator& aggregator, std::size_t lane, StateRestorer& values) {
  ScopedState scoped(values, std::to_string(lane));
  aggregator.visit_state(scoped);
}

}  // namespace

GradientAverager::GradientAverager(std::vector<Parameter> parameters, AveragerOptions options,
                                   std::shared_ptr<Communicator> communicator)
    : parameters_(std::move(parameters)),
      options_(std::move(options)),
      communicator_(std::move(communicator)),
      pool_(std::make_shared<ThreadPool>(options_.codec_threads)),
      lanes_(options_.lanes.size()),
      places_(parameters_.size()) {
  std::exception_ptr refusal;
  try {
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      plan_lane(lane);
      check_memories(lane);
      lanes_[lane].aggregator = make(lane, 0);
    }
  } catch (const ConfigError&) {
    refusal = std::current_exception();
  }
  require_same_terms(*communicator_, refusal ? Terms() : terms(), refusal, "compresses another model than");
  order_buckets();
  std::uint64_t bytes = 0;
  for (const Parameter& parameter : parameters_) {
    bytes += Segment{parameter.name, 0, parameter.shape}.numel() * size_of(parameter.type);
  }
  const auto ranks = static_cast<std::uint64_t>(communicator_->size());
  dense_bytes_ = bytes * 2 * (ranks - 1) / ranks;
  before_ = communicator_->traffic();
}

void GradientAverager::plan_lane(std::size_t lane) {
  LaneState& state = lanes_[lane];
  for (const std::size_t index : options_.lanes[lane].parameters) {
    state.layout.append(parameters_[index].name, parameters_[index].shape);
    places_[index] = {lane, state.layout.segments().back().range(), {}};
  }
  state.plans = plan_buckets(state.layout, options_.bucket_bytes);
  if (state.plans.size() > std::numeric_limits<std::uint16_t>::max()) {
    throw ConfigError(fmt::format("{} buckets are too many; make bucket_mb larger", state.plans.size()));
  }
  state.values.resize(state.layout.size());
}

void GradientAverager::order_buckets() {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    const std::span<const std::size_t> of_lane = options_.lanes[lane].parameters;
    for (std::size_t plan = 0; plan < lanes_[lane].plans.size(); ++plan) {
      const BucketPlan& bucket = lanes_[lane].plans[plan];
      turns_.push_back({lane, plan, 0, of_lane.subspan(bucket.first, bucket.last - bucket.first)});
    }
  }
  std::ranges::stable_sort(turns_, std::ranges::greater{}, [](const Turn& turn) { return turn.parameters.front(); });
  for (std::size_t i = 0; i < turns_.size(); ++i) {
    for (const std::size_t index : turns_[i].parameters) {
      Range& turns = places_[index].turns;
      if (turns.size() == 0) turns.begin = i;
      turns.end = i + 1;
    }
  }
}

std::unique_ptr<ScheduledAggregator> GradientAverager::make(std::size_t lane, std::uint64_t step) const {
  return std::make_unique<ScheduledAggregator>(options_.lanes[lane].phases, lanes_[lane].plans, communicator_->rank(),
                                               communicator_->size(), pool_, step);
}

void GradientAverager::check_memories(std::size_t lane) const {
  for (const Phase& phase : options_.lanes[lane].phases) {
    const MemorySpec& memory = phase.recipe.memory;
    if (!memory || !memory.entry->rate) continue;
    throw ConfigError(
        fmt::format("{}: `{}` wants the learning rate, which belongs to the optimiser and is not known here; use `ef`",
                    named(phase.recipe.option, phase.recipe.source_text), memory.entry->name));
  }
}

void GradientAverager::enter_phases() {
  for (LaneState& lane : lanes_) lane.aggregator->enter(step_);
}

// Makes all lanes before it replaces the first, so that an error changes nothing.
void GradientAverager::replace_all(const MakeLane& make_lane) {
  std::vector<std::unique_ptr<ScheduledAggregator>> made;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) made.push_back(make_lane(lane));
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) lanes_[lane].aggregator = std::move(made[lane]);
}

void GradientAverager::begin_at(std::uint64_t step, const MakeLane& make_lane) {
  replace_all(make_lane);
  begun_ = step_ = step;
}

void GradientAverager::collect(StateCollector& into) {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    ScopedState scoped(into, std::to_string(lane));
    lanes_[lane].aggregator->current().visit_state(scoped);
  }
}

StateValues GradientAverager::state() {
  enter_phases();  // so that load() finds a phase that begins with the next step
  StateCollector collector;
  collect(collector);
  return collector.take();
}

std::vector<std::string> GradientAverager::shared() {
  StateNames names;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    ScopedState scoped(names, std::to_string(lane));
    lanes_[lane].aggregator->current().visit_shared(scoped);
  }
  return names.take();
}

void GradientAverager::load(std::uint64_t step, const StateValues& values) {
  StateRestorer restorer(values);
  begin_at(step, [&](std::size_t lane) {
    auto aggregator = make(lane, step);
    restore(aggregator->current(), lane, restorer);
    if (lane + 1 == lanes_.size()) restorer.finish();
    return aggregator;
  });
}

void GradientAverager::spread(std::uint64_t step, std::span<const FormerState> states) {
  std::vector<StateRestorer> restorers;
  for (const FormerState& state : states) restorers.emplace_back(state.values);
  begin_at(step, [&](std::size_t lane) {
    std::vector<ScopedState> scopes;
    for (StateRestorer& restorer : restorers) scopes.emplace_back(restorer, std::to_string(lane));
    std::vector<FormerRank> each;
    for (std::size_t i = 0; i < states.size(); ++i) {
      if (states[i].rank >= 0) each.push_back({states[i].rank, states[i].ranks, &scopes[i]});
    }
    auto aggregator = make(lane, step);
    if (!scopes.empty()) aggregator->current().visit_shared(scopes.front());
    if (!each.empty()) aggregator->take_over(each);
    if (lane + 1 == lanes_.size()) {
      for (const StateRestorer& restorer : restorers) restorer.finish();
    }
    return aggregator;
  });
}

std::span<float> GradientAverager::values(std::size_t parameter) {
  const Place& place = places_[parameter];
  return std::span(lanes_[place.lane].values).subspan(place.range.begin, place.range.size());
}

void GradientAverager::start_step(double loss_scale) {
  if (!(loss_scale > 0) || !std::isfinite(loss_scale))
    throw ConfigError(fmt::format("the scaler has a scale of {}; wanted is one above 0", loss_scale));
  loss_scale_ = loss_scale;
  overflowed_ = false;
  enter_phases();
  if (options_.propagate) collect(before_step_);
  communicator_->at_step(step_);
  Hash mark;
  mark.add(begun_);
  mark.add(step_);
  mark.add(std::bit_cast<std::uint64_t>(loss_scale));
  communicator_->require_same(
      mark.value(), loss_scale == 1
                        ? "it does not continue from the state of the same step; call sotto.load_state_dict on every "
                          "rank, with the states of one step"
                        : "it does not continue from the state of the same step, or its scaler has another scale; load "
                          "the states of one step on every rank (sotto.load_state_dict, scaler.load_state_dict)");
  for (Turn& turn : turns_) turn.missing = turn.parameters.size();
  next_ = 0;
}

void GradientAverager::arrived(std::size_t parameter) {
  const Range turns = places_[parameter].turns;
  for (std::size_t i = turns.begin; i < turns.end; ++i) --turns_[i].missing;
}

void GradientAverager::run(const std::function<void(std::size_t)>& finished) {
  for (; next_ < turns_.size() && turns_[next_].missing == 0; ++next_) {
    average(turns_[next_]);
    const bool last = next_ + 1 == turns_.size();
    if (last) end_step();  // before the last finished(): a caller that waits for it may ask for the state
    if (options_.propagate && !last) continue;
    const std::size_t first = options_.propagate ? 0 : next_;
    for (std::size_t i = first; i <= next_; ++i) {
      for (const std::size_t parameter : turns_[i].parameters) {
        if (places_[parameter].turns.end == i + 1) finished(parameter);
      }
    }
  }
}

// A step that overflowed leaves no trace, whatever its other buckets sent.
void GradientAverager::end_step() {
  if (overflowed_) {
    StateRestorer restorer(before_step_.values());
    replace_all([&](std::size_t lane) {
      auto aggregator = make(lane, step_);
      restore(aggregator->current(), lane, restorer);
      return aggregator;
    });
    for (std::size_t i = 0; i < places_.size(); ++i)  // not the padding between them
      std::ranges::fill(values(i), std::numeric_limits<float>::quiet_NaN());
  }
  ++step_;
  ++steps_;
}

bool GradientAverager::is_finite_everywhere(const Bucket& bucket) {
  float bad = kernels::all_finite(bucket.values) ? 0.0F : 1.0F;
  communicator_->all_reduce(std::span(&bad, 1), ReduceOp::max);
  return bad == 0;
}

// Whether the means of a turn can be given back. The same on all ranks, because means and scales are.
bool GradientAverager::fits(const Turn& turn) const {
  return std::ranges::all_of(turn.parameters, [&](std::size_t index) {
    const DType type = parameters_[index].type;
    if (type == DType::f32 && loss_scale_ == 1) return true;
    const Place& place = places_[index];
    const auto mean = std::span(lanes_[place.lane].values).subspan(place.range.begin, place.range.size());
    const double reached = std::bit_cast<float>(kernels::max_abs_bits(mean)) * loss_scale_;
    if (reached <= largest(type)) return true;
    if (options_.propagate) return false;
    throw NumericError(fmt::format(
        "rank {}: the mean gradient of {} reaches {:g} at step {}, and {} ends at {:g}: with a memory or an "
        "unbiased codec a mean may be larger than each gradient; keep gradients in bfloat16 or float32, or "
        "scale the loss down",
        communicator_->rank(), parameters_[index].name, reached, step_, name_of(type), largest(type)));
  });
}

void GradientAverager::average(const Turn& turn) {
  if (overflowed_) return;
  LaneState& lane = lanes_[turn.lane];
  const BucketPlan& plan = lane.plans[turn.plan];
  Bucket bucket{std::span(lane.values).subspan(plan.range.begin, plan.range.size()), &plan.layout,
                static_cast<std::uint16_t>(turn.plan)};
  if (options_.propagate) {
    overflowed_ = !is_finite_everywhere(bucket);
    if (overflowed_) return;
  }
  // Lanes number their buckets alike, so each needs its own seed.
  const Key key{options_.seed + turn.lane * 0x9E3779B97F4A7C15ULL, static_cast<std::uint16_t>(communicator_->rank()), 0,
                static_cast<std::uint32_t>(step_)};
  lane.aggregator->current().average(bucket, key, {}, *communicator_, timings_);
  overflowed_ = !fits(turn);
}

AveragerStats GradientAverager::stats() const {
  const Traffic now = communicator_->traffic();
  return {steps_, now.bytes_sent - before_.bytes_sent, now.bytes_received - before_.bytes_received,
          steps_ * dense_bytes_, timings_};
}

std::string GradientAverager::methods() const {
  std::string text;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    const ScheduledAggregator& aggregator = *lanes_[lane].aggregator;
    text += fmt::format("{} by {}", aggregator.phase().recipe.text(), aggregator.current().name());
    if (const std::string remark = aggregator.current().remark(); !remark.empty()) text += fmt::format(" ({})", remark);
    text += '\n';
  }
  return text;
}

// All that the room for a message depends on.
Terms GradientAverager::terms() const {
  Terms terms{{"what is averaged", "gradients"},
              {"seed", std::to_string(options_.seed)},
              {"bucket_mb", fmt::format("{}", static_cast<double>(options_.bucket_bytes) / (1 << 20))}};
  std::vector<std::string_view> lane_of(parameters_.size());
  for (const Lane& lane : options_.lanes) {
    terms.emplace_back(lane.name, text_of(lane.phases));
    terms.emplace_back("aggregator of " + lane.name, text_of(lane.phases.back().recipe.aggregator));
    for (const Phase& phase : lane.phases)
      terms.emplace_back("a step of " + lane.name, std::to_string(phase.first_step));
    for (const std::size_t index : lane.parameters) lane_of[index] = lane.name;
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    terms.emplace_back(parameters_[i].name, fmt::format("{} ({}), under {}", name_of(parameters_[i].type),
                                                        fmt::join(parameters_[i].shape, ", "), lane_of[i]));
  }
  terms.insert(terms.end(), options_.required_same.begin(), options_.required_same.end());
  return terms;
}

std::string GradientAverager::identity() const {
  std::string text = fmt::format("seed {}, buckets of {} bytes\n", options_.seed, options_.bucket_bytes);
  if (options_.propagate) text += "values that are not finite propagate\n";
  for (const Lane& lane : options_.lanes) {
    for (const Phase& phase : lane.phases) {
      text += fmt::format("from step {}: {} by {}\n", phase.first_step, phase.recipe.text(),
                          text_of(phase.recipe.aggregator));
    }
    for (const std::size_t index : lane.parameters) {
      const Parameter& parameter = parameters_[index];
      text += fmt::format("  {} {}", parameter.name, name_of(parameter.type));
      for (const std::int64_t size : parameter.shape) text += fmt::format(" {}", size);
      text += '\n';
    }
  }
  return text;
}

}  // namespace sotto
