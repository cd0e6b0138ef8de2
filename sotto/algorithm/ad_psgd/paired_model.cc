#include "sotto/algorithm/ad_psgd/paired_model.h"

#include <fmt/format.h>

#include <utility>

#include "sotto/aggregate/gossiper.h"
#include "sotto/core/error.h"

namespace sotto {

PairedModel::PairedModel(const Recipe& codec, std::span<const BucketPlan> buckets,
                         const std::shared_ptr<ThreadPool>& pool) {
  for (const BucketPlan& bucket : buckets) {
    const std::shared_ptr<Codec> own = make_gossip_codec(codec, bucket.layout, pool);
    parts_.push_back({bucket, own, Encoder(own), {}, {}});
  }
}

std::size_t PairedModel::max_bytes() const {
  std::size_t bytes = 0;
  for (const Part& part : parts_) bytes += part.codec->max_bytes(part.plan.layout, part.whole());
  return bytes;
}

Bucket PairedModel::bucket(std::span<float> x, std::size_t index) const {
  const BucketPlan& plan = parts_[index].plan;
  return {x.subspan(plan.range.begin, plan.range.size()), &plan.layout, static_cast<std::uint16_t>(index)};
}

void PairedModel::offer(std::span<float> x, const Key& key, std::vector<std::byte>& letter) {
  for (std::size_t b = 0; b < parts_.size(); ++b) {
    const Range whole = parts_[b].whole();
    parts_[b].encoder.encode_alone(bucket(x, b), key, {&whole, 1}, {&parts_[b].own, 1});
    const auto bytes = parts_[b].own.bytes();
    letter.insert(letter.end(), bytes.begin(), bytes.end());
  }
}

void PairedModel::open(std::span<const std::byte> offer, const Expected& expected) {
  Expected next = expected;
  for (Part& part : parts_) {
    part.theirs = MessageView::parse(offer);
    part.theirs.expect(next);
    part.codec->check(part.theirs, part.plan.layout, part.whole());
    offer = offer.subspan(part.theirs.size());
    ++next.bucket;
  }
  if (!offer.empty()) throw WireError(fmt::format("{} bytes behind the model", offer.size()));
}

void PairedModel::move(std::span<float> x) {
  for (std::size_t b = 0; b < parts_.size(); ++b) {
    const Part& part = parts_[b];
    Bucket to = bucket(x, b);
    part.codec->add_decoded(part.theirs, part.whole(), 0.5F, to);
    part.codec->add_decoded(part.own.view(), part.whole(), -0.5F, to);
  }
}

void PairedModel::visit_state(StateVisitor& visitor) {
  for (std::size_t b = 0; b < parts_.size(); ++b) {
    ScopedState scoped(visitor, fmt::format("bucket {}", b));
    parts_[b].codec->visit_state(scoped);
  }
}

}  // namespace sotto
