#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "sotto/aggregate/encoder.h"
#include "sotto/codec/codec.h"
#include "sotto/core/layout.h"

namespace sotto {

// A model that goes half of the way to others', one at a time: x = x + (C(y) - C(x)) / 2, with C(x) as it was when it
// was offered. So does the other one, so that the sum of both stays the same, whatever C rounds off and whatever is
// added to x between offering and moving. An offer is a message of each bucket, one behind the other.
class PairedModel {
 public:
  // ConfigError, which begins with `where`, for a sentence that is not for models.
  PairedModel(std::string_view where, std::string_view codec, std::span<const BucketPlan> buckets,
              const std::shared_ptr<Workers>& workers = nullptr);

  std::size_t max_bytes() const;  // of an offer
  std::vector<float>& x() { return x_; }
  // Encodes x as it is now, behind what `letter` holds.
  void offer(const Key& key, std::vector<std::byte>& letter);
  // Looks through the other one's offer, which must stay where it is until this model has moved. WireError.
  void open(std::span<const std::byte> offer, const Expected& expected);
  // Towards the offer that was opened last. REQUIRES that this one's offer was the last, and that the other one goes to
  // it as well.
  void move();
  void visit_state(StateVisitor& visitor);

 private:
  struct Part {
    BucketPlan plan;
    std::shared_ptr<Codec> codec;
    Encoder encoder;
    Message own;
    MessageView theirs;

    Range whole() const { return {0, plan.layout.size()}; }
  };
  Bucket bucket(std::size_t index);

  std::vector<Part> parts_;
  std::vector<float> x_;
};

}  // namespace sotto
