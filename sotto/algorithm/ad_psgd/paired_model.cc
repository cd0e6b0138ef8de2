#include "sotto/algorithm/ad_psgd/paired_model.h"

#include <fmt/format.h>

#include <utility>

#include "sotto/core/error.h"

namespace sotto {

PairedModel::PairedModel(Layout layout, std::shared_ptr<Codec> codec)
    : layout_(std::move(layout)), codec_(std::move(codec)), encoder_(codec_) {}

const Message& PairedModel::offer(const Key& key) {
  const Range all = whole();
  encoder_.encode_alone(bucket(), key, {&all, 1}, {&own_, 1});
  return own_;
}

MessageView PairedModel::open(std::span<const std::byte> offer, const Expected& expected) const {
  const MessageView view = MessageView::parse(offer);
  if (view.size() != offer.size()) {
    throw WireError(fmt::format("{} bytes behind the model", offer.size() - view.size()));
  }
  view.expect(expected);
  codec_->check(view, layout_, whole());
  return view;
}

void PairedModel::move_towards(const MessageView& theirs) {
  Bucket to = bucket();
  codec_->add_decoded(theirs, whole(), 0.5F, to);
  codec_->add_decoded(own_.view(), whole(), -0.5F, to);
}

}  // namespace sotto
