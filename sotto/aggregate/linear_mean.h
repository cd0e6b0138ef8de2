#pragma once

#include <memory>

#include "sotto/aggregate/aggregator.h"
#include "sotto/codec/scratch.h"

namespace sotto {

// Averages vectors over all ranks, by one all-reduce of a codec's linear form.
class LinearMean {
 public:
  // REQUIRES a linear codec. `layout` is any one that it will see.
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

}  // namespace sotto
