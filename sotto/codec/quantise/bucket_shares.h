#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto {

// Shannon's entropy in bits of a histogram of these numbers between the first and the last of them; 0 when there are
// none, or all are equal. REQUIRES ascending numbers; `bins` are overwritten.
double histogram_entropy(std::span<const float> ascending, std::span<std::uint32_t> bins);

// sizes[k]: `least`, and of what is then left of `total` a share by weights[k], rounded so that the sum is right. Equal
// shares when all weights are 0.
void share_out(std::size_t total, std::size_t least, std::span<const double> weights, std::span<std::uint16_t> sizes);

}  // namespace sotto
