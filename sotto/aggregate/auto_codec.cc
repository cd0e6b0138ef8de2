#include "sotto/aggregate/auto_codec.h"

#include <fmt/format.h>

#include <algorithm>

#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

struct Sender {
  const char* name;   // as users write it
  const char* stage;  // its stage; qsgd has four bits by default
};
constexpr Sender senders[] = {{"none", "f32"}, {"f16", "f16"}, {"qsgd(bits=4)", "qsgd"}};

StageSpecs stages_of(const Sender& sender) { return {stage_table().choose(sender.stage)}; }

constexpr double clearly = 0.95;  // share of the dense time that another candidate must stay below

double seconds_now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

}  // namespace

AutoCodec::AutoCodec(std::vector<Candidate> candidates, int ranks, std::function<double()> now)
    : candidates_(std::move(candidates)), ranks_(ranks), now_(std::move(now)) {
  seconds_.resize(rounds * candidates_.size());
  medians_.resize(candidates_.size());
  if (ranks_ == 1) choice_ = 1;  // nothing is sent
  adopt();
}

std::string AutoCodec::remark() const {
  if (!chosen() || ranks_ == 1) return "";
  const auto text = [&](std::size_t i) { return fmt::format("{} {:.2f}", candidates_[i].codec, 1e3 * medians_[i]); };
  std::string others;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (i + 1 != choice_) others += (others.empty() ? "" : ", ") + text(i);
  }
  std::string all = fmt::format("codec: {} ms a step, against {}", text(choice_ - 1), others);
  if (const std::string inner = current().remark(); !inner.empty()) all += "; " + inner;
  return all;
}

void AutoCodec::average(Bucket& bucket, const Key& key, const StepContext& step, Communicator& communicator,
                        Timings& timings) {
  if (!chosen() && step_ != key.step) begin_step(communicator);
  step_ = key.step;
  current().average(bucket, key, step, communicator, timings);
}

void AutoCodec::visit_state(StateVisitor& visitor) {
  {
    ScopedState own(visitor, "auto_codec");
    own.visit("choice", choice_);
    own.visit("trial", trial_);
    own.visit("seconds", seconds_);
    own.visit("medians", medians_);
  }
  if (choice_ > candidates_.size() || trial_ > seconds_.size()) {
    throw FileError(fmt::format("a checkpoint with auto_codec/choice {} and trial {}: there is none", choice_, trial_));
  }
  adopt();
  begun_ = -1;
  step_.reset();
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (!candidates_[i].aggregator) continue;
    ScopedState scope(visitor, candidates_[i].codec);
    candidates_[i].aggregator->visit_state(scope);
  }
}

Aggregator& AutoCodec::current() const {
  return *candidates_[chosen() ? choice_ - 1 : trial_ % candidates_.size()].aggregator;
}

// A step lasts until the next one begins to send. If a restart hid the end of a step, that trial is repeated.
void AutoCodec::begin_step(Communicator& communicator) {
  const double now = now_();
  if (begun_ >= 0) seconds_[trial_++] = static_cast<float>(now - begun_);
  begun_ = now;
  if (trial_ == seconds_.size()) choose(communicator);
}

void AutoCodec::choose(Communicator& communicator) {
  const std::size_t count = candidates_.size();
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<float> times;
    for (std::size_t trial = count + i; trial < seconds_.size(); trial += count) times.push_back(seconds_[trial]);
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::ranges::nth_element(times, middle);
    medians_[i] = *middle;
  }
  communicator.all_reduce(std::span(medians_), ReduceOp::sum);
  for (float& median : medians_) median /= static_cast<float>(ranks_);
  const auto quickest = static_cast<std::size_t>(std::ranges::min_element(medians_) - medians_.begin());
  choice_ = medians_[quickest] < clearly * medians_[0] ? quickest + 1 : 1;
  adopt();
}

// Frees the candidates that were not chosen.
void AutoCodec::adopt() {
  for (std::size_t i = 0; chosen() && i < candidates_.size(); ++i) {
    if (i + 1 != choice_) candidates_[i].aggregator.reset();
  }
}

std::string auto_codec_suits(const AutoCodecOptions& options, const AggregatorParts& parts) {
  if (parts.memory->remembers() || parts.codec->traits().sentence != "f32") {
    return "it chooses a whole method: no memory before it, no codec after it";
  }
  AggregatorParts tried = parts;
  for (const Sender& sender : senders) {
    tried.codec = make_codec(stages_of(sender));
    if (std::string reason = why_not(options.carrier, tried); !reason.empty()) return reason;
  }
  return "";
}

std::unique_ptr<Aggregator> make_auto_codec(const AutoCodecOptions& options, AggregatorParts parts) {
  std::vector<AutoCodec::Candidate> made;
  for (const Sender& sender : senders) {
    parts.codec = make_codec(stages_of(sender), parts.pool);
    made.push_back({sender.name, make_aggregator(options.carrier, parts)});
  }
  return std::make_unique<AutoCodec>(std::move(made), parts.ranks, seconds_now);
}

}  // namespace sotto
