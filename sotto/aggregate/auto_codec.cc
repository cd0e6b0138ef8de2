#include "sotto/aggregate/auto_codec.h"

#include <fmt/format.h>

#include <bit>
#include <tuple>

#include "sotto/aggregate/hierarchical.h"

namespace sotto {
namespace {

constexpr std::array<std::string_view, 3> qualities{"high", "medium", "low"};

constexpr std::array proposed{
    Candidate{"none", Quality::high, true},
    Candidate{"threshold(0)", Quality::high, true},  // as exact, and short where most of a gradient is zero
    Candidate{"f16", Quality::high, true},
    Candidate{"int8", Quality::high},
    Candidate{"qsgd(bits=4)", Quality::high, true},
    Candidate{"qsgd(bits=4) | rans", Quality::high, true},
    Candidate{"ef | topk(0.25) | qsgd(bits=4)", Quality::medium, true},
    Candidate{"ef | sampled_topk(0.1) | qsgd(bits=4)", Quality::medium},
    Candidate{"ef | power(4)", Quality::medium, true},
    Candidate{"ef | power(2)", Quality::medium},
    Candidate{"ef | sign(block=128)", Quality::low},
    Candidate{"ef | power(1)", Quality::low},
    Candidate{"ef | sampled_topk(0.01)", Quality::low},
    Candidate{"ef | topk(0.01) | qsgd(bits=4)", Quality::low},
};

}  // namespace

std::string_view text_of(Quality quality) { return qualities[static_cast<std::size_t>(quality)]; }

Quality quality_of(std::string_view text) {
  for (std::size_t i = 0; i < qualities.size(); ++i) {
    if (qualities[i] == text) return static_cast<Quality>(i);
  }
  throw std::logic_error("no quality");
}

std::span<const Candidate> candidates() { return proposed; }

namespace {

constexpr float clearly = 0.95F;  // a later candidate must take less than this share of the time of the best so far

double seconds_now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

// The memory of another owner, who visits its state.
class BorrowedMemory final : public Memory {
 public:
  explicit BorrowedMemory(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}
  Bucket prepare(const Bucket& gradient, const StepContext& step, std::span<float> owed) override {
    return memory_->prepare(gradient, step, owed);
  }
  void settle(Bucket& prepared, Sent& sent) override { memory_->settle(prepared, sent); }
  void hold(const Bucket& owed) override { memory_->hold(owed); }
  bool remembers() const override { return memory_->remembers(); }
  void visit_state(StateVisitor& /*visitor*/) override {}

 private:
  std::shared_ptr<Memory> memory_;
};

// The recipe of a candidate with the aggregator that the user asked for.
Recipe carried(const Candidate& candidate, const AutoCodecOptions& options) {
  Recipe recipe = read_recipe(candidate.codec);
  if (!recipe.by_itself()) recipe.aggregator = options.carrier;
  return recipe;
}

std::vector<Candidate> candidates_for(const AutoCodecOptions& options) {
  std::vector<Candidate> found;
  for (const Candidate& candidate : candidates()) {
    if (candidate.tried && candidate.quality <= quality_of(options.quality)) found.push_back(candidate);
  }
  return found;
}

}  // namespace

AutoCodec::AutoCodec(std::vector<Candidate> candidates, std::shared_ptr<Memory> memory, int ranks,
                     std::function<double()> now)
    : candidates_(std::move(candidates)), memory_(std::move(memory)), ranks_(ranks), now_(std::move(now)) {
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
  const auto before = std::tuple(choice_, trial_, left_);
  {
    ScopedState own(visitor, "auto_codec");
    own.visit("choice", choice_);
    own.visit("trial", trial_);
    own.visit("left", left_);
    own.visit("seconds", seconds_);
    own.visit("medians", medians_);
  }
  const std::size_t count = candidates_.size();
  if (choice_ > count || trial_ >= seconds_.size() || left_ >> count != 0 || (!chosen() && left(trial_ % count))) {
    throw FileError(fmt::format("a checkpoint with auto_codec/choice {}, trial {} and left {}: there is none", choice_,
                                trial_, left_));
  }
  adopt();
  if (before != std::tuple(choice_, trial_, left_)) {  // another state was read; writing one does not end the trial
    begun_ = -1;
    step_.reset();
  }
  memory_->visit_state(visitor);
  for (const Candidate& candidate : candidates_) {
    if (!candidate.aggregator) continue;
    ScopedState scope(visitor, candidate.codec);
    candidate.aggregator->visit_state(scope);
  }
}

void AutoCodec::retire() {
  for (const Candidate& candidate : candidates_) {
    if (candidate.aggregator) candidate.aggregator->retire();
  }
}

Aggregator& AutoCodec::current() const {
  return *candidates_[chosen() ? choice_ - 1 : trial_ % candidates_.size()].aggregator;
}

// A step lasts until the next one begins to send. If a restart hid the end of a step, that trial is repeated.
void AutoCodec::begin_step(Communicator& communicator) {
  if (begun_ >= 0) {
    seconds_[trial_] = static_cast<float>(now_() - begun_);
    const std::size_t count = candidates_.size();
    do {
      if ((trial_ + 1) % count == 0) end_round(communicator);
      if (chosen()) return;
      ++trial_;
    } while (left(trial_ % count));
  }
  begun_ = now_();
}

// Ranks judge by the means of their times, so they judge alike.
void AutoCodec::end_round(Communicator& communicator) {
  const std::size_t count = candidates_.size(), done = trial_ / count + 1;
  if (done == 1) return;
  std::vector<float> judged(2 * count);  // the medians, and then the quickest steps
  for (std::size_t i = 0; i < count; ++i) {
    if (left(i)) continue;
    std::vector<float> times;
    for (std::size_t round = 1; round < done; ++round) times.push_back(seconds_[round * count + i]);
    judged[count + i] = std::min(seconds_[i], *std::ranges::min_element(times));
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::ranges::nth_element(times, middle);
    judged[i] = *middle;
  }
  communicator.all_reduce(std::span(judged), ReduceOp::sum);
  float quickest = std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < count; ++i) {
    if (left(i)) continue;
    medians_[i] = judged[i] / static_cast<float>(ranks_);
    quickest = std::min(quickest, judged[count + i]);
  }
  const float most = (done == 2 ? far_slower : slower) * quickest;
  for (std::size_t i = 0; i < count; ++i) {
    if (!left(i) && judged[count + i] > most) leave(i);
  }
  if (done == rounds || static_cast<std::size_t>(std::popcount(left_)) + 1 == count) choose();
}

void AutoCodec::choose() {
  std::size_t best = candidates_.size();
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (left(i)) continue;
    if (best == candidates_.size() || medians_[i] < clearly * medians_[best]) best = i;
  }
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (i != best && !left(i)) leave(i);
  }
  choice_ = best + 1;
}

// What the candidate holds back outside the memory goes into the memory, for the other candidates.
void AutoCodec::leave(std::size_t candidate) {
  candidates_[candidate].aggregator->retire();
  candidates_[candidate].aggregator.reset();
  left_ |= std::uint64_t{1} << candidate;
}

// Frees the candidates that are tried no more.
void AutoCodec::adopt() {
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (chosen() ? i + 1 != choice_ : left(i)) candidates_[i].aggregator.reset();
  }
}

std::string_view auto_codec_memory(const AnyOptions& options) {
  return options.as<AutoCodecOptions>().quality == "high" ? "" : "ef";
}

std::string auto_codec_suits(const AutoCodecOptions& options, const AggregatorParts& parts) {
  const std::string_view memory = auto_codec_memory(options);
  const std::string_view given = parts.memory_spec ? parts.memory_spec.entry->name : "";
  if (given != memory || parts.codec->traits().text != "f32") {
    return fmt::format("it chooses a whole method: no {}memory before it, no codec after it",
                       memory.empty() ? "" : "other ");
  }
  if (!memory.empty() && group_of(options.carrier)) {
    return fmt::format("its candidates share a memory, and {} has separate memories; use quality=high",
                       options.carrier.entry->name);
  }
  AggregatorParts tried = parts;
  for (const Candidate& candidate : candidates_for(options)) {
    const Recipe recipe = carried(candidate, options);
    tried.codec = make_codec(recipe.stages);
    if (std::string reason = why_not(recipe.aggregator, tried); !reason.empty()) return reason;
  }
  return "";
}

std::unique_ptr<AutoCodec> make_auto_codec_with(const AutoCodecOptions& options, AggregatorParts parts,
                                                std::function<double()> now) {
  const std::shared_ptr<Memory> memory = parts.memory;
  parts.memory = std::make_shared<BorrowedMemory>(memory);
  std::vector<AutoCodec::Candidate> made;
  for (const Candidate& candidate : candidates_for(options)) {
    const Recipe recipe = carried(candidate, options);
    parts.codec = make_codec(recipe.stages, parts.pool);
    made.push_back({std::string(candidate.codec), make_aggregator(recipe.aggregator, parts)});
  }
  return std::make_unique<AutoCodec>(std::move(made), memory, parts.ranks, std::move(now));
}

std::unique_ptr<Aggregator> make_auto_codec(const AutoCodecOptions& options, AggregatorParts parts) {
  return make_auto_codec_with(options, std::move(parts), seconds_now);
}

}  // namespace sotto
