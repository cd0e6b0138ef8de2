#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "app/data/order.h"

namespace sotto {

// Like ExampleOrder, for examples of different lengths. A batch has examples of about the same length, and together
// about as many elements as `options.batch` examples of mean length. The batches of all ranks at a position have
// neighbouring lengths. The number and the lengths of the batches depend on the lengths alone; (seed, epoch) decides
// which examples of a length are in the same batch, and the order of the batches.
class LengthOrder {
 public:
  // ConfigError when the examples cannot fill a batch for each rank.
  LengthOrder(std::span<const std::size_t> lengths, const OrderOptions& options);

  const Epochs& epochs() const { return epochs_; }
  // As ExampleOrder::go_on().
  void go_on(const ReadingStart& start, Share share);
  // The examples at this position, which counts over all epochs; valid until the next call.
  std::span<const std::uint32_t> at(std::uint64_t position);

 private:
  struct Batch {
    std::size_t begin, end;  // in the examples, sorted by length
  };
  std::vector<Batch> cut(std::size_t batch) const;
  std::span<const std::uint32_t> examples_of(std::uint64_t batch) const;
  void make_epoch(std::uint64_t epoch);
  void deal(std::uint64_t ranks, std::size_t batch);
  void remove(const Reading& read);

  OrderOptions options_;
  std::vector<std::size_t> lengths_;  // rounded up
  std::uint64_t all_batches_ = 0;     // of a whole epoch, of all ranks
  Epochs epochs_;
  std::vector<Reading> read_;  // by others, of epoch `epochs_.epoch`
  // Of epoch `epoch_`, without what others have read; empty before the first call:
  std::vector<std::uint32_t> sorted_, positions_;
  std::vector<Batch> batches_;
  std::size_t left_out_ = 0;  // batches before the first one
  std::uint64_t epoch_ = 0;
};

}  // namespace sotto
