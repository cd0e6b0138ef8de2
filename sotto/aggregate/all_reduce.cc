#include "sotto/aggregate/all_reduce.h"

#include <algorithm>

#include "sotto/core/timer.h"
#include "sotto/kernels/vector.h"

namespace sotto {
namespace {

class AllReduce final : public Aggregator {
 public:
  explicit AllReduce(AggregatorParts parts) : parts_(std::move(parts)) {
    type_ = parts_.codec->linear_type().value();
    in_place_ = parts_.codec->contract(parts_.buckets.front().layout).kind == Contract::Kind::exact;
    std::size_t bytes = 0;
    std::size_t elements = 0;
    for (const BucketPlan& plan : parts_.buckets) {
      bytes = std::max(bytes, parts_.codec->linear_count(plan.layout) * size_of(type_));
      elements = std::max(elements, plan.layout.size());
    }
    if (!in_place_) linear_.resize(bytes);
    if (parts_.memory->remembers()) sent_.resize(elements);
  }

  std::string_view name() const override { return "all_reduce"; }

  void average(Bucket& bucket, const Key& key, Communicator& communicator, Phases& phases) override {
    Timer timer;
    require_finite(bucket, key);
    Bucket prepared = parts_.memory->prepare(bucket);
    const float share = 1.0F / static_cast<float>(communicator.size());
    if (in_place_) {
      if (prepared.values.data() != bucket.values.data()) std::ranges::copy(prepared.values, bucket.values.begin());
      phases.encode += timer.lap();
      communicator.all_reduce(bucket.values);
      phases.network += timer.lap();
      kernels::scale(share, bucket.values);
    } else {
      const auto linear = std::span(linear_).first(parts_.codec->linear_count(*bucket.layout) * size_of(type_));
      parts_.codec->to_linear(prepared, share, key, linear);
      phases.encode += timer.lap();
      communicator.all_reduce(linear, type_, ReduceOp::sum);
      phases.network += timer.lap();
      parts_.codec->from_linear(linear, 1.0F, bucket);
    }
    require_finite(bucket, key);  // the sum may be too large for its type
    if (parts_.memory->remembers()) settle(prepared, key, share);
    phases.decode += timer.lap();
  }

  void visit_state(StateVisitor& visitor) override {
    parts_.memory->visit_state(visitor);
    parts_.codec->visit_state(visitor);
  }

 private:
  class Values final : public Sent {
   public:
    explicit Values(std::span<const float> values) : values_(values) {}
    void add_to(Bucket& out, float scale) const override { kernels::axpy(scale, values_, out.values); }

   private:
    std::span<const float> values_;
  };

  // The sum took the place of this rank's own form, so that is made again: a cast is cheaper than a copy kept in every
  // step.
  void settle(Bucket& prepared, const Key& key, float share) {
    Bucket own = prepared;
    own.values = std::span(sent_).first(prepared.values.size());
    if (in_place_) {
      std::ranges::copy(prepared.values, own.values.begin());
    } else {
      const auto linear = std::span(linear_).first(parts_.codec->linear_count(*prepared.layout) * size_of(type_));
      parts_.codec->to_linear(prepared, share, key, linear);
      parts_.codec->from_linear(linear, 1.0F / share, own);
    }
    parts_.memory->settle(prepared, Values(own.values));
  }

  AggregatorParts parts_;
  DType type_ = DType::f32;
  bool in_place_ = true;  // the vector is its own linear form
  std::vector<std::byte> linear_;
  std::vector<float> sent_;
};

}  // namespace

std::string all_reduce_suits(const Codec& codec, std::span<const BucketPlan> /*buckets*/) {
  if (codec.linear_type()) return "";
  return "messages of `" + codec.sentence() + "` cannot be summed without decoding them; use gather";
}

std::unique_ptr<Aggregator> make_all_reduce(AggregatorParts parts) {
  return std::make_unique<AllReduce>(std::move(parts));
}

}  // namespace sotto
