#include "sotto/aggregate/linear_mean.h"

#include <algorithm>

#include "sotto/core/timer.h"
#include "sotto/kernels/vector.h"

namespace sotto {

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
    codec_->to_linear(in, share, key, form);
    timings.encode += timer.lap();
    communicator.all_reduce(form, type_, ReduceOp::sum);
    timings.network += timer.lap();
    codec_->from_linear(form, 1.0F, key, out);
  }
  require_finite(out, key, "mean");
  timings.decode += timer.lap();
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

}  // namespace sotto
