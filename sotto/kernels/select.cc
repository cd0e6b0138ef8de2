#include "sotto/kernels/select.h"

#include <algorithm>
#include <array>
#include <bit>

namespace sotto::kernels {
namespace {

inline std::uint32_t magnitude(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU; }

}  // namespace

void count_magnitudes(std::span<const float> values, std::span<std::uint32_t, magnitude_bins> bins) {
  // Neighbours often share a bin; two tables keep one increment from waiting for the one before it.
  std::array<std::array<std::uint32_t, magnitude_bins>, 2> tables{};
  std::size_t i = 0;
  for (; i + 2 <= values.size(); i += 2) {
    ++tables[0][magnitude(values[i]) >> magnitude_shift];
    ++tables[1][magnitude(values[i + 1]) >> magnitude_shift];
  }
  if (i < values.size()) ++tables[0][magnitude(values[i]) >> magnitude_shift];
  for (std::size_t bin = 0; bin < magnitude_bins; ++bin) bins[bin] += tables[0][bin] + tables[1][bin];
}

std::size_t collect_magnitudes(std::span<const float> values, std::uint32_t least, std::uint32_t first,
                               std::uint32_t* out) {
  // Few are taken as a rule, so blocks without any are found first, by a maximum that becomes SIMD.
  constexpr std::size_t block = 32;
  std::size_t count = 0;
  std::size_t begin = 0;
  for (; begin + block <= values.size(); begin += block) {
    std::int32_t most = 0;
    for (std::size_t j = 0; j < block; ++j) {
      most = std::max(most, std::bit_cast<std::int32_t>(values[begin + j]) & 0x7FFFFFFF);
    }
    if (static_cast<std::uint32_t>(most) < least) continue;
    for (std::size_t j = 0; j < block; ++j) {
      out[count] = first + static_cast<std::uint32_t>(begin + j);
      count += magnitude(values[begin + j]) >= least ? 1 : 0;
    }
  }
  for (; begin < values.size(); ++begin) {
    if (magnitude(values[begin]) >= least) out[count++] = first + static_cast<std::uint32_t>(begin);
  }
  return count;
}

}  // namespace sotto::kernels
