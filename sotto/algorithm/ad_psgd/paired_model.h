#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "sotto/aggregate/encoder.h"
#include "sotto/aggregate/recipe.h"
#include "sotto/codec/codec.h"
#include "sotto/core/layout.h"

namespace sotto {

// Moves a model x half of the way to other models, one at a time: x = x + (C(y) - C(x)) / 2, with C(x) as it was when
// it was offered. The other model does the same, so the sum of both does not change, whatever C rounds off and whatever
// is added to x between offer() and move(). An offer has one message per bucket, one after the other.
class PairedModel {
 public:
  // ConfigError for a codec that may not be used on models.
  PairedModel(const Recipe& codec, std::span<const BucketPlan> buckets,
              const std::shared_ptr<ThreadPool>& pool = nullptr);

  std::size_t max_bytes() const;  // size of an offer
  // Appends x to `letter`, encoded as it is now.
  void offer(std::span<float> x, const Key& key, std::vector<std::byte>& letter);
  // Checks and opens the other rank's offer, whose bytes must stay valid until move(). WireError.
  void open(std::span<const std::byte> offer, const Expected& expected);
  // Moves x towards the offer that was opened last. `own` is the offer of x that the other model moves towards.
  void move(std::span<float> x, std::span<const std::byte> own);
  void visit_state(StateVisitor& visitor);

 private:
  struct Part {
    BucketPlan plan;
    std::shared_ptr<Codec> codec;
    Encoder encoder;
    Message message;  // of offer(), reused
    std::unique_ptr<Opened> own, theirs;

    Range whole() const { return {0, plan.layout.size()}; }
  };
  Bucket bucket(std::span<float> x, std::size_t index) const;

  std::vector<Part> parts_;
};

}  // namespace sotto
