#include "sotto/aggregate/aggregators.h"

#include <algorithm>

#include "sotto/aggregate/owners.h"
#include "sotto/core/timer.h"
#include "sotto/kernels/vector.h"

namespace sotto {
namespace {

class ScatterReduce final : public Aggregator {
 public:
  // Divide::no: owners encode sums, not means. This is for codecs that ignore a factor, and need exact sums of whole
  // numbers. The residual of the second encoding is then not kept.
  enum class Divide : std::uint8_t { yes, no };
  ScatterReduce(AggregatorParts parts, std::string_view name, Divide divide)
      : parts_(std::move(parts)),
        name_(name),
        keeps_(divide == Divide::yes && parts_.memory->remembers()),
        owners_(parts_, parts_.codec, divide == Divide::yes ? 1.0F / static_cast<float>(parts_.ranks) : 1.0F) {
    std::size_t owned = 0;
    for (const BucketPlan& plan : parts_.buckets) {
      const auto contract = parts_.codec->contract(plan.layout);
      cuts_.push_back(
          owners_.cut(plan.layout, static_cast<int>(cuts_.size()), cut_chunks(plan.layout, contract, parts_.ranks)));
      errors_.push_back(owned);
      owned += cuts_.back().chunk().size();
    }
    if (keeps_) error_.resize(owned);
  }

  std::string_view name() const override { return name_; }

  void average(Bucket& bucket, const Key& key, const StepContext& step, Communicator& communicator,
               Timings& timings) override {
    const Cut& cut = cuts_.at(bucket.index);
    Timer timer;
    Bucket prepared = parts_.memory->prepare(bucket, step, keeps_ ? error_of(cut) : std::span<float>());
    timings.encode += timer.lap();
    owners_.exchange(prepared, key, cut, communicator, timings);
    timer.lap();
    Bucket mean = owners_.sum(bucket, key, cut, communicator);
    if (keeps_) kernels::add(error_of(cut), mean.values);
    timings.decode += timer.lap();
    owners_.spread(mean, bucket, key, cut, communicator, timings);
    if (!parts_.memory->remembers()) return;
    timer.lap();
    Owners::SentChunks sent = owners_.sent(*prepared.layout, cut);
    parts_.memory->settle(prepared, sent);
    if (keeps_) {  // `mean` holds what was encoded: error plus mean
      owners_.subtract_sent(mean, cut);
      std::ranges::copy(mean.values, error_of(cut).begin());
    }
    timings.decode += timer.lap();
  }

  void visit_state(StateVisitor& visitor) override {
    parts_.visit_state(visitor);
    ScopedState mean(visitor, "mean");
    if (keeps_) mean.visit("error", error_);
    owners_.mean_codec().visit_state(mean);
  }

  // error_ is part of a mean. A memory's content is divided by the number of ranks before it reaches the mean, so
  // error_ is multiplied by that number.
  void retire() override {
    if (error_.empty()) return;
    for (const Cut& cut : cuts_) {
      const BucketPlan& plan = parts_.buckets[static_cast<std::size_t>(cut.index)];
      const Bucket owed{owners_.sum_buffer(plan.range.size()), &plan.layout, static_cast<std::uint16_t>(cut.index)};
      std::ranges::fill(owed.values, 0.0F);
      const auto chunk = owed.values.subspan(cut.chunk().begin, cut.chunk().size());
      std::ranges::copy(error_of(cut), chunk.begin());
      kernels::scale(static_cast<float>(parts_.ranks), chunk);
      parts_.memory->hold(owed);
    }
    std::ranges::fill(error_, 0.0F);
  }

 private:
  // What the second encoding of this rank's chunk left out. REQUIRES keeps_.
  std::span<float> error_of(const Cut& cut) {
    return std::span(error_).subspan(errors_[static_cast<std::size_t>(cut.index)], cut.chunk().size());
  }

  AggregatorParts parts_;
  std::string_view name_;
  bool keeps_;  // whether it keeps what the second encoding leaves out
  Owners owners_;
  std::vector<Cut> cuts_;            // by bucket
  std::vector<std::size_t> errors_;  // where this rank's chunk of each bucket begins in error_
  std::vector<float> error_;         // what the second encoding of this rank's chunks left out; empty unless keeps_
};

}  // namespace

std::string scatter_reduce_suits(const Codec& /*codec*/, std::span<const BucketPlan> /*buckets*/) { return ""; }

std::unique_ptr<Aggregator> make_scatter_reduce(AggregatorParts parts) {
  return std::make_unique<ScatterReduce>(std::move(parts), "scatter_reduce", ScatterReduce::Divide::yes);
}

std::string vote_suits(const Codec& codec, std::span<const BucketPlan> buckets) {
  if (codec.contract(buckets.front().layout).signs) return "";
  return "a vote is of signs, and messages of `" + codec.traits().text + "` are not: use `signs`, or scatter_reduce";
}

std::unique_ptr<Aggregator> make_vote(AggregatorParts parts) {
  return std::make_unique<ScatterReduce>(std::move(parts), "vote", ScatterReduce::Divide::no);
}

}  // namespace sotto
