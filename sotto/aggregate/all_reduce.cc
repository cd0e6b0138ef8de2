#include "sotto/aggregate/all_reduce.h"

#include "sotto/aggregate/linear_mean.h"
#include "sotto/aggregate/memory/momentum.h"
#include "sotto/core/timer.h"
#include "sotto/kernels/vector.h"

namespace sotto {
namespace {

class SentValues final : public Sent {
 public:
  SentValues(std::span<const float> values, Codec& codec, const Key& key) : values_(values), codec_(codec), key_(key) {}
  void add_to(Bucket& out, float scale) override { kernels::axpy(scale, values_, out.values); }
  void clear_chosen(Bucket& out) override { codec_.clear_chosen(key_, out); }

 private:
  std::span<const float> values_;
  Codec& codec_;
  Key key_;
};

class AllReduce final : public Aggregator {
 public:
  explicit AllReduce(AggregatorParts parts)
      : parts_(std::move(parts)), mean_(parts_.codec, parts_.buckets.front().layout) {}

  std::string_view name() const override { return "all_reduce"; }

  void average(Bucket& bucket, const Key& key, const StepContext& step, Communicator& communicator,
               Timings& timings) override {
    Timer timer;
    require_finite(bucket, key, step.what);
    Bucket prepared = parts_.memory->prepare(bucket, step, {});
    timings.encode += timer.lap();
    mean_.average(prepared, bucket, key, communicator, timings);
    timer.lap();
    if (parts_.memory->remembers()) settle(prepared, bucket, key, communicator.size());
    parts_.memory->finish(bucket);
    timings.decode += timer.lap();
  }

  void visit_state(StateVisitor& visitor) override { parts_.visit_state(visitor); }

  // The momentum of the mean: every rank steps by it.
  void visit_shared(StateVisitor& visitor) override {
    if (is_momentum_of_mean(parts_.memory_spec)) parts_.memory->visit_state(visitor);
  }

 private:
  void settle(Bucket& prepared, const Bucket& mean, const Key& key, int ranks) {
    if (!parts_.codec->traits().additive) {  // all ranks hold back what the mean lacks
      SentValues sent(mean.values, *parts_.codec, key);
      return parts_.memory->settle(prepared, sent);
    }
    // The sum replaced this rank's own form, so that is made again: a cast is cheaper than a copy kept in every step.
    Bucket own = prepared;
    own.values = own_.room(prepared.values.size());
    mean_.own(prepared, own, key, ranks);
    SentValues sent(own.values, *parts_.codec, key);
    parts_.memory->settle(prepared, sent);
  }

  AggregatorParts parts_;
  LinearMean mean_;
  Scratch<float> own_;
};

}  // namespace

std::string all_reduce_suits(const Codec& codec, std::span<const BucketPlan> /*buckets*/) {
  if (codec.traits().linear_type) return "";
  return "messages of `" + codec.traits().text +
         "` cannot be summed without decoding them; use gather or scatter_reduce";
}

std::unique_ptr<Aggregator> make_all_reduce(AggregatorParts parts) {
  return std::make_unique<AllReduce>(std::move(parts));
}

}  // namespace sotto
