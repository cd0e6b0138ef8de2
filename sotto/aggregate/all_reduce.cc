#include "sotto/aggregate/all_reduce.h"

#include <fmt/format.h>

#include <cstring>
#include <exception>

#include "sotto/aggregate/memory/momentum.h"
#include "sotto/kernels/vector.h"

namespace sotto {
namespace {

// Whether a sum of 16-bit forms is finite. Sums of floats pass, because they are checked after decoding.
bool fits(std::span<const std::byte> form, DType type) {
  if (size_of(type) != sizeof(std::uint16_t)) return true;
  const unsigned exponent = type == DType::f16 ? 0x7C00 : 0x7F80;
  unsigned beyond = 0;
  for (std::size_t i = 0; i < form.size(); i += sizeof(std::uint16_t)) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, form.data() + i, sizeof bits);
    beyond |= (bits & exponent) == exponent ? 1U : 0U;
  }
  return beyond == 0;
}

}  // namespace

LinearMean::LinearMean(std::shared_ptr<Codec> codec, const Layout& layout)
    : codec_(std::move(codec)),
      type_(codec_->traits().linear_type.value()),
      exact_(codec_->contract(layout).kind == Contract::Kind::exact) {}

std::span<std::byte> LinearMean::linear(const Bucket& bucket) {
  return linear_.room(codec_->linear_count(*bucket.layout) * size_of(type_));
}

void LinearMean::average(const Bucket& in, Bucket& out, const Key& key, Communicator& communicator, Timings& timings) {
  Timer timer;
  const float share = 1.0F / static_cast<float>(communicator.size());
  if (exact_) {
    if (in.values.data() != out.values.data()) std::ranges::copy(in.values, out.values.begin());
    timings.encode += timer.lap();
    communicator.all_reduce(out.values);
    timings.network += timer.lap();
    kernels::scale(share, out.values);
  } else {
    const auto form = linear(in);
    std::exception_ptr refusal;
    try {
      codec_->to_linear(in, share, key, form);
    } catch (const DoesNotFit&) {  // the others learn it from the sum, and continue or end as this rank does
      refusal = std::current_exception();
      std::ranges::fill(form, std::byte{0xFF});  // NaN in every type
    }
    timings.encode += timer.lap();
    communicator.all_reduce(form, type_, ReduceOp::sum);
    timings.network += timer.lap();
    if (refusal) std::rethrow_exception(refusal);
    if (!fits(form, type_)) refuse(form, out, key);
    codec_->from_linear(form, 1.0F, key, out);
  }
  require_finite(out, key, "mean");
  timings.decode += timer.lap();
}

// Throws DoesNotFit, which names the tensor. Leaves `out` as it is.
void LinearMean::refuse(std::span<const std::byte> form, const Bucket& out, const Key& key) {
  std::vector<float> values(out.values.size());
  Bucket sum{values, out.layout, out.index};
  codec_->from_linear(form, 1.0F, key, sum);
  try {
    require_finite(sum, key, "mean");
  } catch (const NumericError& error) {
    throw DoesNotFit(
        fmt::format("{}: it, or a value of another rank, does not fit {}: use bf16, or gather the messages",
                    error.what(), name_of(type_)));
  }
}

void LinearMean::own(const Bucket& in, Bucket& out, const Key& key, int ranks) {
  if (exact_) {
    std::ranges::copy(in.values, out.values.begin());
    return;
  }
  const auto form = linear(in);
  codec_->to_linear(in, 1.0F / static_cast<float>(ranks), key, form);
  codec_->from_linear(form, static_cast<float>(ranks), key, out);
}

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
