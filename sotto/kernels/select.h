#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto::kernels {

// Magnitudes are compared as float bits without the sign, which has the order of |value|; infinities and NaN are the
// largest.

// Writes first + i, ascending, for every i whose magnitude bits are at least `least`; returns how many. REQUIRES
// least >= 1, so zeros are never written, and room in `out` for values.size() numbers.
std::size_t collect_magnitudes(std::span<const float> values, std::uint32_t least, std::uint32_t first,
                               std::uint32_t* out);

}  // namespace sotto::kernels
