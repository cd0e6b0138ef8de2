#pragma once

#include "sotto/aggregate/memory/memory.h"
#include "sotto/codec/codec.h"
#include "sotto/codec/message.h"

namespace sotto {

// What this rank sent as one message, of this part of a bucket.
class SentMessage final : public Sent {
 public:
  SentMessage(const Codec& codec, const MessageView& message, Range part)
      : codec_(codec), message_(message), part_(part) {}
  void add_to(Bucket& out, float scale) const override { codec_.add_decoded(message_, part_, scale, out); }
  void clear_chosen(Bucket& out) const override { codec_.clear_chosen(message_, part_, out); }

 private:
  const Codec& codec_;
  MessageView message_;
  Range part_;
};

}  // namespace sotto
