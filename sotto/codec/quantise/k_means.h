#pragma once

#include <cstdint>
#include <span>

#include "sotto/core/random.h"

namespace sotto {

// Centres of clusters of numbers on a line, in ascending order: k-means++ (Arthur, Vassilvitskii, SODA 2007), then the
// means of what is nearest to each (Lloyd, 1982), twenty times at most. Draws are the numbers `first`, `first` + 1 ...
// of the stream. Where there are fewer different numbers than centres, the last centre stands there several times; of
// no numbers all centres are 0. docs/wire has it step by step. REQUIRES ascending finite numbers that are not
// negative, and room for as many distances.
void find_centres(std::span<const float> ascending, const ElementStream& stream, std::uint32_t first,
                  std::span<double> distances, std::span<float> centres);

}  // namespace sotto
