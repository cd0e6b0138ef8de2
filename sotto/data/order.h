#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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
class ExampleOrder {
 public:
  // ConfigError when the examples cannot fill one global batch.
  ExampleOrder(std::size_t examples, const OrderOptions& options);

  std::uint64_t positions_per_epoch() const { return positions_per_epoch_; }
  // The examples at this position, which counts over all epochs; valid until the next call.
  std::span<const std::uint32_t> at(std::uint64_t position);

 private:
  OrderOptions options_;
  std::uint64_t positions_per_epoch_;
  std::size_t examples_;
  std::vector<std::uint32_t> order_;  // that of `epoch_`; empty before the first call
  std::uint64_t epoch_ = 0;
};

}  // namespace sotto
