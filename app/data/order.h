#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sotto/core/error.h"

namespace sotto {

// A stretch of an epoch: at each of its positions, each rank reads a batch of examples.
struct Reading {
  std::uint64_t ranks = 1, batch = 1, positions = 0;
};

// Share number `rank` of `ranks` equal shares of the examples.
struct Share {
  int rank = 0, ranks = 1;
};

// Where a run continues after its number of ranks or its batch size has changed. It first reads the rest of the begun
// epoch.
struct ReadingStart {
  std::uint64_t position = 0;   // the first position of the new ranks
  std::uint64_t epoch = 0;      // the begun epoch
  std::vector<Reading> read{};  // the stretches of this epoch that were read, in their order
};

inline FileError reads_too_much(std::uint64_t epoch) {
  return FileError("a checkpoint with more read of epoch " + std::to_string(epoch) + " than it has");
}

// Which batch of which epoch a position is. Positions count over all epochs.
struct Epochs {
  std::uint64_t each = 1;                        // positions of a whole epoch
  std::uint64_t first = 0, epoch = 0, left = 1;  // `epoch` still has `left` positions, from position `first` on

  static Epochs of(std::uint64_t each) { return {each, 0, 0, each}; }

  struct Place {
    std::uint64_t epoch = 0, index = 0;
    std::uint64_t positions = 1;  // of this epoch, or of its rest
    bool operator==(const Place&) const = default;
  };
  // REQUIRES position >= first.
  Place at(std::uint64_t position) const {
    const std::uint64_t made = position - first;
    if (made < left) return {epoch, made, left};
    return {epoch + 1 + (made - left) / each, (made - left) % each, each};
  }
  // The first position of epoch `other`; `first` for the begun epoch and those before it.
  std::uint64_t begin_of(std::uint64_t other) const {
    return other <= epoch ? first : first + left + (other - epoch - 1) * each;
  }
};

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
// If ranks have their own examples, each takes the next `batch` of them at each position. It goes round them without
// end, and shuffles them for each round. An epoch has the same length for all ranks, from their mean number of
// examples: a rank with fewer examples makes more than a round in an epoch, and one with more makes less.
class ExampleOrder {
 public:
  // `own`: the examples of this rank; empty: all ranks share all examples. ConfigError when the examples cannot fill
  // one global batch.
  ExampleOrder(std::size_t examples, const OrderOptions& options, std::vector<std::uint32_t> own = {});

  const Epochs& epochs() const { return epochs_; }
  // Continues where other ranks stopped reading, with this share: the rest of their epoch comes first. FileError if the
  // epoch has less than they read. REQUIRES the same share as before if ranks have their own examples.
  void go_on(const ReadingStart& start, Share share);
  // The examples at this position, which counts over all epochs; valid until the next call.
  std::span<const std::uint32_t> at(std::uint64_t position);
  // The round to which example number `i` of the batch at this position belongs. A round is an epoch or, if ranks have
  // their own examples, one pass through them. No round has an example twice.
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
  std::size_t left_out_ = 0;  // batches of batches_ before the first one in use
  std::uint64_t epoch_ = 0;
};

}  // namespace sotto
