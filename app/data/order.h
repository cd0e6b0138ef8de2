#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "app/data/epochs.h"

namespace sotto {

struct OrderOptions {
  std::uint64_t seed = 1;
  int rank = 0;
  int ranks = 1;
  std::size_t batch = 64;  // examples per rank and position
};

// Which of the training examples a rank has at each position. Epoch e is a permutation of the examples that depends on
// (seed, e) alone, not on the number of ranks. Each position takes the next ranks*batch examples of it, and rank r gets
// the r-th batch of these. Examples that do not fill a last global batch are left out of the epoch.
//
// If ranks have their own examples, each takes the next `batch` of them at each position, goes round them without end,
// and shuffles them for each round. An epoch has the same length for all ranks, by the mean number of examples: a rank
// with fewer sees some several times in an epoch, and one with more needs more than an epoch for a round.
class ExampleOrder {
 public:
  // `own`: the examples of this rank alone; empty: all ranks share all. ConfigError when the examples cannot fill one
  // global batch.
  ExampleOrder(std::size_t examples, const OrderOptions& options, std::vector<std::uint32_t> own = {});

  const Epochs& epochs() const { return epochs_; }
  // Continues where other ranks stopped reading, as this rank of so many: the rest of their epoch comes before the next
  // one. FileError when they cannot have read that much. REQUIRES the same share as before if ranks have their own
  // examples.
  void go_on(const ReadingStart& start, Share share);
  // The examples at this position, which counts over all epochs; valid until the next call.
  std::span<const std::uint32_t> at(std::uint64_t position);
  // The round that example number `i` of the batch at this position belongs to: an epoch, or a rank's round through its
  // examples. No round has an example twice.
  std::uint64_t round(std::uint64_t position, std::size_t i) const;

 private:
  void make_round(std::uint64_t round);

  OrderOptions options_;
  std::size_t examples_;
  Epochs epochs_;
  std::uint64_t skipped_ = 0;  // examples of epoch `epochs_.epoch` that others have read
  std::vector<std::uint32_t> own_;
  std::vector<std::uint32_t>
      order_;  // in round `round_`, of examples or of places in own_; empty before the first call
  std::uint64_t round_ = 0;
  std::vector<std::uint32_t> batch_;  // of own examples
};

}  // namespace sotto
