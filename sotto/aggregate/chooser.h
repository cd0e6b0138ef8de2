#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sotto/codec/codec.h"
#include "sotto/codec/selection.h"

namespace sotto {

// A codec that chooses elements of a vector, taken apart: its selection, which looks at a whole bucket, and what
// carries the chosen elements of any stretch of it: `threshold(0) | QUANTISER | CODE`, whose messages hold all that is
// not zero.
class Chooser {
 public:
  // Why this codec is none, in words; empty: it is one.
  static std::string refusal(const Codec& codec, std::span<const BucketPlan> buckets);

  // REQUIRES no refusal().
  Chooser(const Codec& codec, const std::shared_ptr<ThreadPool>& pool);

  const std::shared_ptr<Codec>& carrier() const { return carrier_; }
  // Stretches of a bucket among whose elements it chooses; all others go whole, in every step.
  std::vector<Range> choosable(const Layout& layout) const;
  // chosen = the elements that it chooses, zeros elsewhere. NumericError where a value is not finite.
  void choose(const Bucket& bucket, const Key& key, Bucket& chosen);
  // out = 0 at the elements that choose() chose (Sent::clear_chosen).
  void clear_chosen(Bucket& out) { opened_->clear_chosen(out); }
  void visit_state(StateVisitor& visitor) { selecting_->visit_state(visitor); }

 private:
  Selection selection_;  // for what it says of segments
  std::shared_ptr<Codec> selecting_, carrier_;
  std::unique_ptr<Opened> opened_;
  Message message_;  // to nobody
};

}  // namespace sotto
