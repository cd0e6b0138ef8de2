#include "sotto/aggregate/regions.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "sotto/core/error.h"
#include "sotto/kernels/element.h"

namespace sotto {
namespace {

std::size_t aligned(std::size_t element) {
  return (element + Layout::alignment - 1) / Layout::alignment * Layout::alignment;
}

}  // namespace

void RegionCounts::add_up(std::size_t bins_used, float most, Communicator& communicator) {
  const auto counts = std::span(counts_).first(bins_used);
  communicator.all_reduce(counts);
  for (const float count : counts) {
    if (count >= 0 && count <= most) continue;
    throw WireError(fmt::format("rank {}: ranks that agree on regions have {} entries together, of {} at most",
                                communicator.rank(), count, most));
  }
}

std::uint64_t RegionCounts::borders(const Bucket& chosen, std::span<const Range> choosable, Communicator& communicator,
                                    std::span<std::uint64_t> borders) {
  const std::size_t size = chosen.values.size();
  const std::size_t width = std::max(aligned((size + bins - 1) / bins), Layout::alignment);
  counts_.fill(0);
  for (std::size_t i = 0; i < size; ++i) counts_[i / width] += chosen.values[i] != 0 ? 1.0F : 0.0F;
  for (const Range range : choosable) {
    for (std::size_t i = range.begin; i < range.end; ++i) counts_[bins] += chosen.values[i] != 0 ? 1.0F : 0.0F;
  }
  add_up(bins + 1, static_cast<float>(size) * static_cast<float>(communicator.size()), communicator);

  const auto regions = static_cast<double>(borders.size() + 1);
  const double total = std::accumulate(counts_.begin(), counts_.begin() + bins, 0.0);
  double before = 0;  // entries before bin `bin`
  std::size_t bin = 0;
  for (std::size_t j = 0; j < borders.size(); ++j) {
    const double wanted = total * static_cast<double>(j + 1) / regions;
    while (bin + 1 < bins && before + counts_[bin] < wanted) before += counts_[bin++];
    const double within = counts_[bin] > 0 ? std::clamp((wanted - before) / counts_[bin], 0.0, 1.0) : 0.0;
    const auto place = bin * width + static_cast<std::size_t>(within * static_cast<double>(width));
    borders[j] = std::min(aligned(place), size);
  }
  return static_cast<std::uint64_t>(std::ceil(counts_[bins] / communicator.size()));
}

// Finds the exponent first, and then, among the values of that exponent, the 8 bits after the leading one.
float RegionCounts::threshold(std::span<const float> values, std::span<const Range> stretches, std::uint64_t count,
                              Communicator& communicator) {
  auto left = static_cast<double>(count);
  const std::size_t exponent = digit(values, stretches, 23, 0, left, communicator);
  if (exponent == bins) return 0;
  // Beyond 2^24, rounding can make the two passes disagree. If the second one finds no bin, this takes bin 0.
  const std::size_t found = digit(values, stretches, 15, static_cast<std::uint32_t>(exponent), left, communicator);
  const std::size_t digits = found == bins ? 0 : found;
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent << 23U | digits << 15U));
}

// Looks only at the values whose bits above the 8 at `shift` are `prefix`. Returns the bin that holds the `count`-th
// largest of them, and sets `count` to its number within that bin. Returns `bins` if there are fewer values.
std::size_t RegionCounts::digit(std::span<const float> values, std::span<const Range> stretches, unsigned shift,
                                std::uint32_t prefix, double& count, Communicator& communicator) {
  counts_.fill(0);
  for (const Range range : stretches) {
    for (const float value : values.subspan(range.begin, range.size())) {
      const std::uint32_t bits = kernels::element::magnitude_bits(value);
      if (bits != 0 && bits >> shift >> 8U == prefix) counts_[bits >> shift & 0xFFU] += 1;
    }
  }
  add_up(bins, std::numeric_limits<float>::max(), communicator);
  for (std::size_t bin = bins; bin-- > 0;) {
    if (count <= counts_[bin]) return bin;
    count -= counts_[bin];
  }
  return bins;
}

}  // namespace sotto
