#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto {

// Shannon entropy, in bits, of a histogram of these numbers from the first to the last. 0 if there are no numbers or
// all are equal. REQUIRES ascending numbers; `bins` are overwritten.
double histogram_entropy(std::span<const float> ascending, std::span<std::uint32_t> bins);

// sizes[k] = `least` plus a share, by weights[k], of the rest of `total`, rounded so that the sum is `total`. Equal
// shares if all weights are 0.
void share_out(std::size_t total, std::size_t least, std::span<const double> weights, std::span<std::uint32_t> sizes);

}  // namespace sotto
