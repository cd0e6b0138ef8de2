#include "sotto/aggregate/aggregators.h"

#include <algorithm>

#include "sotto/codec/scratch.h"
#include "sotto/codec/select/topk.h"
#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "sotto/core/timer.h"
#include "sotto/kernels/reduce.h"
#include "sotto/kernels/vector.h"

namespace sotto {
namespace {

TopKOptions largest_of(double ratio) {
  TopKOptions options;
  options.ratio = ratio;
  options.dense = "0";
  return options;
}

class Fetch final : public Aggregator {
 public:
  Fetch(const FetchOptions& options, AggregatorParts parts)
      : options_(options),
        parts_(std::move(parts)),
        largest_(make_codec({stage_table().choose("topk", largest_of(options.ratio))}, parts_.pool)),
        opened_(largest_->make_opened()) {
    std::size_t size = 0;
    for (const BucketPlan& plan : parts_.buckets) {
      begins_.push_back(size);
      size += parts_.codec->linear_count(plan.layout);
    }
    momentum_.resize(size);
    error_.resize(size);
  }

  std::string_view name() const override { return "fetch"; }

  void average(Bucket& bucket, const Key& key, const StepContext& step, Communicator& communicator,
               Timings& timings) override {
    const std::size_t count = parts_.codec->linear_count(*bucket.layout);
    const Key fixed{
        .seed = key.seed,
        .generation = key.generation};  // the same key in all steps, because sketches of different steps are added
    const auto sketch = sketch_.room(count);
    Timer timer;
    require_finite(bucket, key, step.what);
    parts_.codec->to_linear(bucket, 1.0F / static_cast<float>(parts_.ranks), fixed, std::as_writable_bytes(sketch));
    timings.encode += timer.lap();
    communicator.all_reduce(std::as_writable_bytes(sketch), DType::f32, ReduceOp::sum);
    timings.network += timer.lap();
    if (!kernels::all_finite(sketch)) {
      throw NumericError("rank " + std::to_string(key.rank) + ": the sum of all sketches is not finite at step " +
                         std::to_string(key.step));
    }
    const auto u = std::span(momentum_).subspan(begins_.at(bucket.index), count);
    const auto e = std::span(error_).subspan(begins_.at(bucket.index), count);
    kernels::scale(static_cast<float>(options_.momentum), u);
    kernels::add(sketch, u);
    kernels::add(u, e);
    take_largest(bucket, fixed, e);
    timings.decode += timer.lap();
    parts_.codec->to_linear(bucket, 1, fixed, std::as_writable_bytes(sketch));
    kernels::axpy(-1, sketch, e);
    const bool masks = options_.masking && options_.ratio < 1;
    for (std::size_t i = 0; masks && i < count; ++i) u[i] = sketch[i] == 0 ? u[i] : 0;
    timings.encode += timer.lap();
  }

  void visit_state(StateVisitor& visitor) override {
    parts_.codec->visit_state(visitor);
    visit_shared(visitor);
  }

  // Every rank takes the largest elements of these sketches.
  void visit_shared(StateVisitor& visitor) override {
    visitor.visit("memory.fetch.momentum", momentum_);
    visitor.visit("memory.fetch.error", error_);
  }

 private:
  // bucket = the largest elements of the vector that this sketch stands for.
  void take_largest(Bucket& bucket, const Key& key, std::span<const float> sketch) {
    const Range whole{0, bucket.values.size()};
    parts_.codec->from_linear(std::as_bytes(sketch), 1, key, bucket);
    largest_->encode(bucket, key, {}, {&whole, 1}, {&message_, 1});
    std::ranges::fill(bucket.values, 0.0F);
    opened_->open(message_.view(), *bucket.layout, whole);
    opened_->add_to(bucket, 1);
  }

  FetchOptions options_;
  AggregatorParts parts_;
  std::unique_ptr<Codec> largest_;
  std::unique_ptr<MessageReader> opened_;
  Message message_;                  // never sent
  std::vector<std::size_t> begins_;  // offset of each bucket's sketch
  std::vector<float> momentum_, error_;
  Scratch<float> sketch_;
};

}  // namespace

std::string fetch_suits(const FetchOptions& /*options*/, const AggregatorParts& parts) {
  if (parts.memory_spec) return "keeps what it did not send in the sketch: no memory may stand before it";
  if (parts.codec->traits().linear_type == DType::f32) return "";
  return "adds sketches of many steps: what follows it must end in f32";
}

std::unique_ptr<Aggregator> make_fetch(const FetchOptions& options, AggregatorParts parts) {
  return std::make_unique<Fetch>(options, std::move(parts));
}

std::size_t fetch_bytes(const AnyOptions& /*options*/, Codec& codec, const Layout& bucket) {
  return codec.linear_count(bucket) * sizeof(float);
}

}  // namespace sotto
