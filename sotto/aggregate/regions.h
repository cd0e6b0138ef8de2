#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "sotto/codec/codec.h"
#include "sotto/comm/communicator.h"

namespace sotto {

// What the ranks of `sparse` agree on now and then, of a bucket: small sums over all of them, of 4 bytes a number.
// WireError, on all ranks, when a sum cannot be one of counts.
class RegionVotes {
 public:
  static constexpr std::size_t bins = 256;

  // Borders between regions that have about the same number of entries, of all ranks together: borders[j] is where
  // region j + 1 begins, a multiple of Layout::alignment or the end. Returns how many entries a rank chose on average,
  // at least 1; those in `choosable` alone count for that.
  std::uint64_t borders(const Bucket& chosen, std::span<const Range> choosable, Communicator& communicator,
                        std::span<std::uint64_t> borders);

  // A magnitude that about `count` values of all ranks together reach, and no fewer: the largest such one of those with
  // 8 bits behind the leading one; 0 where there are not so many. Looks at these stretches of `values`.
  float threshold(std::span<const float> values, std::span<const Range> stretches, std::uint64_t count,
                  Communicator& communicator);

 private:
  // counts_ are then those of all ranks together; none is above `most`.
  void add_up(std::size_t bins_used, float most, Communicator& communicator);
  std::size_t digit(std::span<const float> values, std::span<const Range> stretches, unsigned shift,
                    std::uint32_t prefix, double& count, Communicator& communicator);

  std::array<float, bins + 1> counts_{};  // exact up to 2^24, and the same on all ranks beyond
};

}  // namespace sotto
