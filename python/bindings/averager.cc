#include "python/bindings/averager.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "python/bindings/agreement.h"
#include "sotto/core/error.h"
#include "sotto/core/hash.h"
#include "sotto/kernels/reduce.h"

namespace sotto::python {
namespace {

constexpr std::string_view where = "codec";

bool has_memory(const std::string& method) { return !read_method(where, method).memory.empty(); }

// Carries memories from one aggregator to the next: all values whose name begins with "memory." and that both have.
class MemoryCarrier final : public StateVisitor {
 public:
  void turn_round() { writing_ = true; }

  void visit(std::string_view name, std::vector<float>& values) override { carry(floats_, name, values); }
  void visit(std::string_view name, std::vector<std::uint8_t>& bytes) override { carry(bytes_, name, bytes); }
  void visit(std::string_view name, std::uint64_t& value) override { carry(numbers_, name, value); }

 private:
  template <class Value>
  void carry(std::map<std::string, Value, std::less<>>& kept, std::string_view name, Value& value) {
    if (!name.starts_with("memory.")) return;
    if (!writing_) {
      kept.emplace(name, value);
    } else if (const auto found = kept.find(name); found != kept.end()) {
      value = found->second;
    }
  }

  bool writing_ = false;
  std::map<std::string, std::vector<float>, std::less<>> floats_;
  std::map<std::string, std::vector<std::uint8_t>, std::less<>> bytes_;
  std::map<std::string, std::uint64_t, std::less<>> numbers_;
};

}  // namespace

Averager::Averager(std::vector<Parameter> parameters, AveragerOptions options,
                   std::unique_ptr<Communicator> communicator)
    : parameters_(std::move(parameters)),
      options_(std::move(options)),
      communicator_(std::move(communicator)),
      lanes_(options_.lanes.size()),
      places_(parameters_.size()) {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    plan_lane(lane);
    check_phases(lane);
  }
  order_buckets();
  std::uint64_t bytes = 0;
  for (const Parameter& parameter : parameters_) {
    bytes += Segment{parameter.name, 0, parameter.shape}.numel() * size_of(parameter.type);
  }
  const auto ranks = static_cast<std::uint64_t>(communicator_->size());
  dense_bytes_ = bytes * 2 * (ranks - 1) / ranks;

  // The room for a message depends on all of this, so it is compared before any is sent.
  Hash hash;
  hash.add(identity() + options_.agreed);
  if (const int other = first_to_differ(*communicator_, hash.value()); other >= 0) {
    throw ConfigError(fmt::format("rank {} compresses another model than rank 0, or in another way", other));
  }
  begin_at(0);
  before_ = communicator_->traffic();
}

void Averager::plan_lane(std::size_t lane) {
  LaneState& state = lanes_[lane];
  for (const std::size_t index : options_.lanes[lane].parameters) {
    state.layout.append(parameters_[index].name, parameters_[index].shape);
    places_[index] = {lane, state.layout.segments().back().range(), 0};
  }
  state.plans = plan_buckets(state.layout, options_.bucket_bytes);
  if (state.plans.size() > std::numeric_limits<std::uint16_t>::max()) {
    throw ConfigError(fmt::format("{} buckets are too many; make bucket_mb larger", state.plans.size()));
  }
  state.values.resize(state.layout.size());
}

void Averager::order_buckets() {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    const std::span<const std::size_t> of_lane = options_.lanes[lane].parameters;
    for (std::size_t plan = 0; plan < lanes_[lane].plans.size(); ++plan) {
      const BucketPlan& bucket = lanes_[lane].plans[plan];
      turns_.push_back({lane, plan, 0, of_lane.subspan(bucket.first, bucket.last - bucket.first)});
    }
  }
  std::ranges::sort(turns_, std::ranges::greater{}, [](const Turn& turn) { return turn.parameters.front(); });
  for (std::size_t i = 0; i < turns_.size(); ++i) {
    for (const std::size_t index : turns_[i].parameters) places_[index].bucket = i;
  }
}

std::unique_ptr<Aggregator> Averager::make(std::size_t lane, std::size_t phase) const {
  const Phase& chosen = options_.lanes[lane].phases[phase];
  return make_aggregator(where, chosen.aggregator, chosen.method, lanes_[lane].plans, *communicator_);
}

// Errors of a later phase are told at once.
void Averager::check_phases(std::size_t lane) const {
  const auto& phases = options_.lanes[lane].phases;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    make(lane, i);
    if (i > 0 && has_memory(phases[i - 1].method) && !has_memory(phases[i].method)) {
      throw ConfigError(
          fmt::format("schedule: `{}` from step {} on would lose what `{}` holds back; write `ef | {}`, "
                      "which sends it",
                      phases[i].method, phases[i].first_step, phases[i - 1].method,
                      phases[i].method == "none" ? "f32" : phases[i].method));
    }
  }
}

std::size_t Averager::phase_at(std::size_t lane, std::uint64_t step) const {
  const auto& phases = options_.lanes[lane].phases;
  const auto next = std::ranges::upper_bound(phases, step, {}, &Phase::first_step);
  return static_cast<std::size_t>(next - phases.begin()) - 1;
}

void Averager::enter_phase(std::size_t lane, std::size_t phase) {
  LaneState& state = lanes_[lane];
  auto aggregator = make(lane, phase);
  MemoryCarrier carrier;
  state.aggregator->visit_state(carrier);
  carrier.turn_round();
  aggregator->visit_state(carrier);
  state.aggregator = std::move(aggregator);
  state.phase = phase;
}

void Averager::begin_at(std::uint64_t step) {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    lanes_[lane].phase = phase_at(lane, step);
    lanes_[lane].aggregator = make(lane, lanes_[lane].phase);
  }
  step_ = step;
}

std::span<float> Averager::values(std::size_t parameter) {
  const Place& place = places_[parameter];
  return std::span(lanes_[place.lane].values).subspan(place.range.begin, place.range.size());
}

void Averager::start_step() {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (const std::size_t phase = phase_at(lane, step_); phase != lanes_[lane].phase) enter_phase(lane, phase);
  }
  communicator_->at_step(step_);
  for (Turn& turn : turns_) turn.missing = turn.parameters.size();
  next_ = 0;
}

void Averager::arrived(std::size_t parameter) { --turns_[places_[parameter].bucket].missing; }

void Averager::run(const std::function<void(std::size_t)>& finished) {
  for (; next_ < turns_.size() && turns_[next_].missing == 0; ++next_) {
    average(turns_[next_]);
    if (next_ + 1 == turns_.size()) {  // before the last parameter is told: whoever waits for it may ask for the state
      ++step_;
      ++steps_;
    }
    for (const std::size_t parameter : turns_[next_].parameters) finished(parameter);
  }
}

void Averager::average(const Turn& turn) {
  LaneState& lane = lanes_[turn.lane];
  const BucketPlan& plan = lane.plans[turn.plan];
  Bucket bucket{std::span(lane.values).subspan(plan.range.begin, plan.range.size()), &plan.layout,
                static_cast<std::uint16_t>(turn.plan)};
  if (options_.propagate) {
    float bad = kernels::all_finite(bucket.values) ? 0.0F : 1.0F;
    communicator_->all_reduce(std::span(&bad, 1), ReduceOp::max);
    if (bad > 0) {
      std::ranges::fill(bucket.values, std::numeric_limits<float>::quiet_NaN());
      return;
    }
  }
  // Lanes number their buckets alike, so each draws with a seed of its own.
  const Key key{options_.seed + turn.lane * 0x9E3779B97F4A7C15ULL, static_cast<std::uint16_t>(communicator_->rank()), 0,
                static_cast<std::uint32_t>(step_)};
  lane.aggregator->average(bucket, key, *communicator_, phases_);
}

AveragerStats Averager::stats() const {
  const Traffic& now = communicator_->traffic();
  return {steps_, now.bytes_sent - before_.bytes_sent, now.bytes_received - before_.bytes_received,
          steps_ * dense_bytes_, phases_};
}

std::string Averager::methods() const {
  std::string text;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    const Phase& phase = options_.lanes[lane].phases[lanes_[lane].phase];
    const Aggregator& aggregator = *lanes_[lane].aggregator;
    text += fmt::format("{} by {}", canonical_method(where, phase.method), aggregator.name());
    if (const std::string remark = aggregator.remark(); !remark.empty()) text += fmt::format(" ({})", remark);
    text += '\n';
  }
  return text;
}

std::string Averager::identity() const {
  std::string text = fmt::format("seed {}, buckets of {} bytes\n", options_.seed, options_.bucket_bytes);
  if (options_.propagate) text += "values that are not finite propagate\n";
  for (const Lane& lane : options_.lanes) {
    for (const Phase& phase : lane.phases) {
      text += fmt::format("from step {}: {} by {}\n", phase.first_step, canonical_method(where, phase.method),
                          phase.aggregator);
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

void Averager::visit_state(StateVisitor& visitor) {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    ScopedState scoped(visitor, std::to_string(lane));
    lanes_[lane].aggregator->visit_state(scoped);
  }
}

}  // namespace sotto::python
