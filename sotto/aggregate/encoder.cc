#include "sotto/aggregate/encoder.h"

#include "sotto/core/timer.h"

namespace sotto {

std::span<float> Encoder::proposed(const Bucket& bucket) {
  const auto numbers = agreed_.room(codec_->agreed_count(*bucket.layout));
  if (!numbers.empty()) codec_->propose(bucket, numbers);
  return numbers;
}

void Encoder::encode(const Bucket& bucket, const Key& key, std::span<const Range> parts, std::span<Message> out,
                     Communicator& communicator, Timings& timings) {
  Timer timer;
  const auto agreed = proposed(bucket);
  if (!agreed.empty()) {
    timings.encode += timer.lap();
    communicator.all_reduce(agreed, ReduceOp::max);
    timings.network += timer.lap();
  }
  codec_->encode(bucket, key, agreed, parts, out);
  timings.encode += timer.lap();
}

void Encoder::encode_alone(const Bucket& bucket, const Key& key, std::span<const Range> parts, std::span<Message> out) {
  codec_->encode(bucket, key, proposed(bucket), parts, out);
}

}  // namespace sotto
