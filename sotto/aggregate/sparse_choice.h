#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sotto/codec/codec.h"
#include "sotto/codec/selection.h"
#include "sotto/comm/communicator.h"

namespace sotto {

// Splits a codec that chooses elements of a vector into two: its selection, which looks at a whole bucket, and a
// carrier, which encodes the chosen elements of any stretch of the bucket. The carrier is `threshold(0) | QUANTISER |
// CODE`: its messages hold everything that is not zero.
class Chooser {
 public:
  // REQUIRES sparse_suits().
  Chooser(const Codec& codec, const std::shared_ptr<ThreadPool>& pool);

  const std::shared_ptr<Codec>& carrier() const { return carrier_; }
  // The stretches of a bucket in which it chooses elements; all elements outside them are sent in every step.
  std::vector<Range> choosable(const Layout& layout) const;
  // chosen = the elements that it chooses, zeros elsewhere. NumericError if a value is not finite.
  void choose(const Bucket& bucket, const Key& key, Bucket& chosen);
  // out = 0 at the elements that the last choose() chose (Sent::clear_chosen).
  void clear_chosen(Bucket& out) { opened_->clear_chosen(out); }
  void visit_state(StateVisitor& visitor) { selecting_->visit_state(visitor); }

 private:
  Selection selection_;  // tells which segments are dense
  std::shared_ptr<Codec> selecting_, carrier_;
  std::unique_ptr<MessageReader> opened_;
  Message message_;  // never sent
};

// What the ranks of `sparse` agree on for a bucket from time to time, by small all-reduces of 4 bytes per number.
// WireError, on all ranks, if a sum cannot be a sum of counts.
class RegionCounts {
 public:
  static constexpr std::size_t bins = 256;

  // Finds borders between regions that hold about equally many entries, counted over all ranks: borders[j] is where
  // region j + 1 begins, a multiple of Layout::alignment or the end. Returns how many entries within `choosable` a rank
  // chose on average.
  std::uint64_t borders(const Bucket& chosen, std::span<const Range> choosable, Communicator& communicator,
                        std::span<std::uint64_t> borders);

  // The largest magnitude that at least `count` values of all ranks together reach, rounded down to 8 bits after the
  // leading one. So only a few more than `count` values reach it. 0 if there are fewer non-zero values. Looks only at
  // `stretches` of `values`.
  float threshold(std::span<const float> values, std::span<const Range> stretches, std::uint64_t count,
                  Communicator& communicator);

 private:
  // Sums counts_ over all ranks. WireError if a sum is above `most`.
  void add_up(std::size_t bins_used, float most, Communicator& communicator);
  std::size_t digit(std::span<const float> values, std::span<const Range> stretches, unsigned shift,
                    std::uint32_t prefix, double& count, Communicator& communicator);

  std::array<float, bins + 1> counts_{};  // exact up to 2^24, and the same on all ranks beyond
};

}  // namespace sotto
