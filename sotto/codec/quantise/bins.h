#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/core/thread_pool.h"
#include "sotto/kernels/bins.h"

namespace sotto {

// Interface of a quantiser whose symbols are the bins of kernels/bins.h, each with one value; a sketch can then follow
// it. Only `quantile` offers it. It is an interface so that neither the sketch nor the quantiser knows the other.
class Bins {
 public:
  virtual ~Bins() = default;
  // Finds the bins of a unit, and writes the values of the bins as the quantiser's side information. Returns false if a
  // value is not finite.
  virtual bool find(ThreadPool& pool, std::span<const float> values, std::span<std::byte> side) = 0;
  // Writes the bin of each of these values, which belong to the same unit.
  virtual void place(std::span<const float> values, std::span<std::uint16_t> bins) const = 0;
  virtual std::size_t most_bins() const = 0;
};

// The bins of a unit as a reader knows them. The side information has the values of the bins: first the positive bins,
// then the negative ones, each outwards from zero. Zeros fill the rest.
struct BinValues {
  // REQUIRES side information that check_bins() accepts.
  explicit BinValues(std::span<const std::byte> side);
  std::size_t count() const { return 1 + positive + negative; }

  std::size_t positive = 0, negative = 0;          // number of bins of positive and negative values
  std::array<float, kernels::most_bins> values{};  // of all bins, including the bin of zero
};

// WireError if the values are not finite or not in this order.
void check_bins(std::span<const std::byte> side);

}  // namespace sotto
