#pragma once

#include <cstdint>
#include <span>

#include "sotto/core/random.h"

namespace sotto {

// Finds the cluster centres of numbers on a line, in ascending order: k-means++ (Arthur, Vassilvitskii, SODA 2007),
// then at most twenty rounds of moving each centre to the mean of the numbers nearest to it (Lloyd, 1982). The random
// draws are the numbers `first`, `first` + 1 ... of the stream. If there are fewer distinct numbers than centres, the
// last centre is repeated; without numbers all centres are 0. docs/wire describes the steps. REQUIRES ascending,
// finite, non-negative numbers, and room for as many distances.
void find_centres(std::span<const float> ascending, const ElementStream& stream, std::uint32_t first,
                  std::span<double> distances, std::span<float> centres);

}  // namespace sotto
