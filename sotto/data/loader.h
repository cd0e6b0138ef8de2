#pragma once

#include <cstdint>
#include <memory>

#include "sotto/core/batch.h"
#include "sotto/data/dataset.h"

namespace sotto {

struct LoaderOptions {
  std::uint64_t seed = 1;
  int rank = 0;
  int ranks = 1;
  std::size_t batch = 64;  // examples per rank and micro-step
  std::size_t prefetch = 2;
  bool augment = false;  // by CropFlip
};

// The training examples of one rank. Epoch e is a permutation of the data that depends on (seed, e) alone, not on the
// number of ranks. Each micro-step takes the next ranks*batch examples of it, and rank r gets the r-th batch of these.
// Examples that do not fill a last global batch are left out of the epoch. A batch is a pure function of the number of
// its micro-step, so there is no state to save. A thread reads ahead.
class Loader {
 public:
  // ConfigError when the data cannot fill one global batch.
  Loader(const Dataset& data, LoaderOptions options);
  ~Loader();
  // The batch of this micro-step (counted from 0 over all epochs); valid until the next call. Any order is allowed, but
  // only consecutive steps benefit from reading ahead.
  Batch at(std::uint64_t micro_step);
  std::uint64_t steps_per_epoch() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sotto
