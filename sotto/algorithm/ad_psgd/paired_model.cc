#include "sotto/algorithm/ad_psgd/paired_model.h"

#include <fmt/format.h>

#include "sotto/aggregate/gossiper.h"
#include "sotto/core/error.h"

namespace sotto {

PairedModel::PairedModel(const Recipe& codec, std::span<const BucketPlan> buckets,
                         const std::shared_ptr<ThreadPool>& pool) {
  for (const BucketPlan& bucket : buckets) {
    const std::shared_ptr<Codec> own = make_gossip_codec(codec, bucket.layout, pool);
    parts_.push_back({bucket, own, Encoder(own), {}, own->make_opened(), own->make_opened()});
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
    parts_[b].encoder.encode_alone(bucket(x, b), key, {&whole, 1}, {&parts_[b].message, 1});
    const auto bytes = parts_[b].message.bytes();
    letter.insert(letter.end(), bytes.begin(), bytes.end());
  }
}

void PairedModel::open(std::span<const std::byte> offer, const Expected& expected) {
  Expected next = expected;
  for (Part& part : parts_) {
    const MessageView message = MessageView::parse(offer);
    message.expect(next);
    part.theirs->open(message, part.plan.layout, part.whole());
    offer = offer.subspan(message.size());
    ++next.bucket;
  }
  if (!offer.empty()) throw WireError(fmt::format("{} bytes after the model", offer.size()));
}

void PairedModel::move(std::span<float> x, std::span<const std::byte> own) {
  for (std::size_t b = 0; b < parts_.size(); ++b) {
    const Part& part = parts_[b];
    Bucket to = bucket(x, b);
    part.theirs->add_to(to, 0.5F);
    const MessageView message = MessageView::parse(own);
    part.own->open(message, part.plan.layout, part.whole());
    part.own->add_to(to, -0.5F);
    own = own.subspan(message.size());
  }
}

void PairedModel::visit_state(StateVisitor& visitor) {
  for (std::size_t b = 0; b < parts_.size(); ++b) {
    ScopedState scoped(visitor, fmt::format("bucket {}", b));
    parts_[b].codec->visit_state(scoped);
  }
}

}  // namespace sotto
