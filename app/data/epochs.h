#pragma once

#include <cstdint>
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

// Where a run continues after its number of ranks, or its batches, have changed: first with the rest of the epoch that
// was begun.
struct ReadingStart {
  std::uint64_t position = 0;   // the first position of the new ranks
  std::uint64_t epoch = 0;      // the epoch that was begun
  std::vector<Reading> read{};  // the stretches of it that were read, in this order
};

inline FileError reads_too_much(std::uint64_t epoch) {
  return FileError("a checkpoint with more read of epoch " + std::to_string(epoch) + " than it has");
}

// Which batch of which epoch a position is. Positions count over all epochs.
struct Epochs {
  std::uint64_t each = 1;                        // positions of a whole epoch
  std::uint64_t first = 0, epoch = 0, left = 1;  // position `first` is the first of the `left` that `epoch` still has

  static Epochs of(std::uint64_t each) { return {each, 0, 0, each}; }

  struct Place {
    std::uint64_t epoch = 0, index = 0;
    std::uint64_t positions = 1;  // of this epoch, or of the rest of it
    bool operator==(const Place&) const = default;
  };
  // REQUIRES position >= first.
  Place at(std::uint64_t position) const {
    const std::uint64_t made = position - first;
    if (made < left) return {epoch, made, left};
    return {epoch + 1 + (made - left) / each, (made - left) % each, each};
  }
  // The first position of an epoch; `first` for those that were begun before.
  std::uint64_t begin_of(std::uint64_t other) const {
    return other <= epoch ? first : first + left + (other - epoch - 1) * each;
  }
};

}  // namespace sotto
