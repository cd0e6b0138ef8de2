#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sotto/aggregate/encoder.h"
#include "sotto/codec/codec.h"

namespace sotto {

// A model that goes half of the way to others', one at a time: x = x + (C(y) - C(x)) / 2, with C(x) as it was when it
// was offered. So does the other one, so that the sum of both stays the same, whatever C rounds off and whatever is
// added to x between offering and moving.
class PairedModel {
 public:
  PairedModel(Layout layout, std::shared_ptr<Codec> codec);

  std::size_t max_bytes() const { return codec_->max_bytes(layout_, whole()); }
  std::vector<float>& x() { return x_; }
  // Encodes x as it is now. Valid until the next one.
  const Message& offer(const Key& key);
  // The other one's offer, once it was looked through. WireError.
  MessageView open(std::span<const std::byte> offer, const Expected& expected) const;
  // REQUIRES that this one's offer was the last, and that the other one goes to it as well.
  void move_towards(const MessageView& theirs);
  void visit_state(StateVisitor& visitor) { codec_->visit_state(visitor); }

 private:
  Range whole() const { return {0, layout_.size()}; }
  Bucket bucket() { return {x_, &layout_, 0}; }

  Layout layout_;
  std::shared_ptr<Codec> codec_;
  Encoder encoder_;
  std::vector<float> x_;
  Message own_;
};

}  // namespace sotto
