#pragma once

#include <cstdint>
#include <span>

#include "sotto/comm/communicator.h"

namespace sotto {

enum class Op : std::uint8_t { avg, sum, min, max };

// data = what all ranks have, put together element by element, the same bits on every rank. Collective: all ranks have
// as many. avg divides the sum by `denominator`, or by the number of ranks where that is 0: by the number of examples,
// for instance, where ranks have sums over batches of several sizes. CommError.
//
//   std::vector<float> statistics = ...;
//   aggregate(statistics, Op::avg, communicator);
void aggregate(std::span<float> data, Op op, Communicator& communicator, double denominator = 0);

}  // namespace sotto
