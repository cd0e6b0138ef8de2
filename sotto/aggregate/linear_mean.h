#pragma once

#include <memory>

#include "sotto/aggregate/aggregator.h"
#include "sotto/codec/scratch.h"

namespace sotto {

// The mean over all ranks of vectors, by one all-reduce of a codec's linear form.
class LinearMean {
 public:
  // REQUIRES a linear codec; `layout` is any that it will see.
  LinearMean(std::shared_ptr<Codec> codec, const Layout& layout);
  // out = the mean of every rank's `in`, of the same layout; they may be the same vector. NumericError when a sum is
  // too large for its type.
  void average(const Bucket& in, Bucket& out, const Key& key, Communicator& communicator, Timings& timings);
  // out = what the codec made of this rank's own `in`: its share in the last mean.
  void own(const Bucket& in, Bucket& out, const Key& key, int ranks);

 private:
  std::span<std::byte> linear(const Bucket& bucket);

  std::shared_ptr<Codec> codec_;
  DType type_;
  bool exact_;  // the vector is its own linear form
  Scratch<std::byte> linear_;
};

}  // namespace sotto
