#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sotto/codec/codec.h"
#include "sotto/codec/selection.h"

namespace sotto {

// A codec that chooses elements of a vector, taken apart: into its selection, which looks at a whole bucket, and a
// carrier, which encodes the chosen elements of any stretch of it. The carrier is `threshold(0) | QUANTISER | CODE`:
// its messages hold everything that is not zero.
class Chooser {
 public:
  // Why this codec cannot be taken apart, in words; empty if it can.
  static std::string refusal(const Codec& codec, std::span<const BucketPlan> buckets);

  // REQUIRES that refusal() is empty.
  Chooser(const Codec& codec, const std::shared_ptr<ThreadPool>& pool);

  const std::shared_ptr<Codec>& carrier() const { return carrier_; }
  // Stretches of a bucket among whose elements it chooses; all other elements are sent in every step.
  std::vector<Range> choosable(const Layout& layout) const;
  // chosen = the elements that it chooses, zeros elsewhere. NumericError if a value is not finite.
  void choose(const Bucket& bucket, const Key& key, Bucket& chosen);
  // out = 0 at the elements that the last choose() chose (Sent::clear_chosen).
  void clear_chosen(Bucket& out) { opened_->clear_chosen(out); }
  void visit_state(StateVisitor& visitor) { selecting_->visit_state(visitor); }

 private:
  Selection selection_;  // tells which segments are dense
  std::shared_ptr<Codec> selecting_, carrier_;
  std::unique_ptr<Opened> opened_;
  Message message_;  // never sent
};

}  // namespace sotto
