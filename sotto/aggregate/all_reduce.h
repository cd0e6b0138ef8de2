#pragma once

#include <memory>

#include "sotto/aggregate/aggregator.h"
#include "sotto/codec/scratch.h"

namespace sotto {

// Averages vectors over all ranks, by one all-reduce of a codec's linear form.
class LinearMean {
 public:
  // REQUIRES a linear codec. `layout` is any layout that average() will get.
  LinearMean(std::shared_ptr<Codec> codec, const Layout& layout);
  // out = the mean over all ranks of `in`, which has the same layout. Both may be the same vector. NumericError if the
  // mean is not finite. DoesNotFit, on all ranks, if a value of some rank or a sum is too large for 16 bits; `out` is
  // then as it was.
  void average(const Bucket& in, Bucket& out, const Key& key, Communicator& communicator, Timings& timings);
  // out = this rank's own `in` as the codec sends it: its contribution to the mean, times the number of ranks.
  void own(const Bucket& in, Bucket& out, const Key& key, int ranks);

 private:
  void refuse(std::span<const std::byte> form, const Bucket& out, const Key& key);
  std::span<std::byte> linear(const Bucket& bucket);

  std::shared_ptr<Codec> codec_;
  DType type_;
  bool exact_;  // the vector is its own linear form
  Scratch<std::byte> linear_;
};

// Sums the linear forms of a codec, such as dense f32 or a cast to 16 bits, by one all-reduce. Bytes sent per rank:
// 2n(W-1)/W, for W ranks and n bytes of the linear form. The values of a cast are divided by W before the sum. If the
// sum overflows all the same, every rank throws NumericError, and the memory is not settled. A sum in 16 bits is
// rounded at every addition. Error feedback remembers what the cast of a rank's own vector lost, but not this rounding.
// In messages f16 has a unit, but not here: v/W below 3e-8 counts as 0, and |v| above 65504 is a NumericError. bf16 has
// the range of a float.
std::string all_reduce_suits(const Codec& codec, std::span<const BucketPlan> buckets);
std::unique_ptr<Aggregator> make_all_reduce(AggregatorParts parts);

}  // namespace sotto
