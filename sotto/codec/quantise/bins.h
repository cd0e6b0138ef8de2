#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/core/thread_pool.h"
#include "sotto/kernels/bins.h"

namespace sotto {

// What a quantiser offers whose symbols are the bins of kernels/bins.h, each with one value: a sketch can then stand
// behind it.
class Bins {
 public:
  virtual ~Bins() = default;
  // Finds the bins of a unit, and writes their values as the quantiser's side information. False when one is not
  // finite.
  virtual bool find(ThreadPool& pool, std::span<const float> values, std::span<std::byte> side) = 0;
  // The bins of some of its values.
  virtual void place(std::span<const float> values, std::span<std::uint16_t> bins) const = 0;
  virtual std::size_t most_bins() const = 0;
};

// What a reader knows of the bins of a unit. Side information: the values of the bins of positive values, then those of
// the negative ones, each outwards from zero; zeros behind them.
struct BinValues {
  // REQUIRES side information that check_bins() accepts.
  explicit BinValues(std::span<const std::byte> side);
  std::size_t count() const { return 1 + positive + negative; }

  std::size_t positive = 0, negative = 0;          // bins of these values
  std::array<float, kernels::most_bins> values{};  // of all bins, the one of zero included
};

// WireError when the values are not finite or not in their order.
void check_bins(std::span<const std::byte> side);

}  // namespace sotto
