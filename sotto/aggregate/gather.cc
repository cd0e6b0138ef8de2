#include "sotto/aggregate/aggregators.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sotto/aggregate/round.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

// Whether the mean of an atom is over all ranks, or over the ranks whose messages hold it.
enum class Over : std::uint8_t { ranks, holders };

class Gather final : public Aggregator {
 public:
  Gather(AggregatorParts parts, Over over)
      : parts_(std::move(parts)), encoder_(parts_.codec), over_(over), messages_(parts_.codec) {
    for (const BucketPlan& plan : parts_.buckets) {
      rooms_.push_back(parts_.codec->max_bytes(plan.layout, {0, plan.layout.size()}));
    }
  }

  std::string_view name() const override { return over_ == Over::ranks ? "gather" : "gather_held"; }

  void average(Bucket& bucket, const Key& key, const StepContext& step, Communicator& communicator,
               Timings& timings) override {
    const Range whole{0, bucket.values.size()};
    Timer timer;
    Bucket prepared = parts_.memory->prepare(bucket, step, {});
    timings.encode += timer.lap();
    encoder_.encode(prepared, key, {&whole, 1}, {&own_, 1}, communicator, timings);
    timer.lap();

    const int ranks = communicator.size();
    round_.clear();
    for (int i = 1; i < ranks; ++i) {  // rank+1 first: no two ranks begin with the same receiver
      round_.send((communicator.rank() + i) % ranks, own_);
      round_.receive((communicator.rank() + ranks - i) % ranks, rooms_.at(bucket.index));
    }
    round_.exchange(communicator);
    timings.network += timer.lap();

    decode_all(bucket, key, communicator);
    if (parts_.memory->remembers()) {
      parts_.memory->settle(prepared, messages_[static_cast<std::size_t>(communicator.rank())]);
    }
    timings.decode += timer.lap();
  }

  void visit_state(StateVisitor& visitor) override { parts_.visit_state(visitor); }

 private:
  // Opens all messages before it decodes the first, so that a bad one leaves bucket and memory unchanged. Decodes in
  // rank order, because sums of floats depend on it.
  void decode_all(Bucket& bucket, const Key& key, const Communicator& communicator) {
    const Range whole{0, bucket.values.size()};
    round_.open(
        communicator, {.generation = key.generation, .step = key.step, .bucket = bucket.index},
        [&](const MessageView& message) { messages_[message.header().origin].open(message, *bucket.layout, whole); });
    messages_[static_cast<std::size_t>(communicator.rank())].open(own_.view(), *bucket.layout, whole);
    std::ranges::fill(bucket.values, 0.0F);
    const auto ranks = static_cast<std::size_t>(communicator.size());
    if (over_ == Over::holders) {
      return parts_.codec->add_mean_of_holders(messages_.first(ranks), whole, bucket);
    }
    parts_.codec->add_sum(messages_.first(ranks), 1.0F / static_cast<float>(ranks), bucket);
  }

  AggregatorParts parts_;
  Encoder encoder_;
  Over over_;
  std::vector<std::size_t> rooms_;  // bytes of the largest message, by bucket
  Message own_;
  Round round_;
  OpenedMessages messages_;  // by rank
};

}  // namespace

std::string gather_suits(const Codec& /*codec*/, std::span<const BucketPlan> /*buckets*/) { return ""; }

std::unique_ptr<Aggregator> make_gather(AggregatorParts parts) {
  return std::make_unique<Gather>(std::move(parts), Over::ranks);
}

std::string gather_held_suits(const Codec& codec, std::span<const BucketPlan> buckets) {
  constexpr const char* instead = "; use gather";
  if (!codec.traits().lists_atoms) {
    return "`" + codec.traits().text + "` chooses no atoms that are the same ones on every rank" + instead;
  }
  for (const BucketPlan& plan : buckets) {
    if (codec.contract(plan.layout).kind != Contract::Kind::unbiased) continue;
    return "`" + codec.traits().text + "` is unbiased in the mean over all ranks alone" + instead;
  }
  return "";
}

std::unique_ptr<Aggregator> make_gather_held(AggregatorParts parts) {
  return std::make_unique<Gather>(std::move(parts), Over::holders);
}

}  // namespace sotto
