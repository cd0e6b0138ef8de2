#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto::kernels {

// Magnitudes are compared as float bits without the sign, which orders them as |value|; what is not finite is the
// largest.

// Writes first + i, ascending, for every i with |values[i]| >= the magnitude of these bits; returns how many. `least`
// is at least 1, so zeros are never among them. REQUIRES room in `out` for values.size() numbers.
std::size_t collect_magnitudes(std::span<const float> values, std::uint32_t least, std::uint32_t first,
                               std::uint32_t* out);

}  // namespace sotto::kernels
