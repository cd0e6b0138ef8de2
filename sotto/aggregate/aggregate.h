#pragma once

#include <cstdint>
#include <span>

#include "sotto/comm/communicator.h"

namespace sotto {

enum class Op : std::uint8_t { avg, sum, min, max };

// Combines the `data` of all ranks element by element, with the same bits on every rank. Collective: all ranks pass
// equally many elements. Op::avg divides the sum by `denominator`, or by the number of ranks if that is 0. Pass the
// total number of examples, for instance, if ranks hold sums over batches of different sizes. CommError.
//
//   std::vector<float> statistics = ...;
//   aggregate(statistics, Op::avg, communicator);
inline void aggregate(std::span<float> data, Op op, Communicator& communicator, double denominator = 0) {
  const ReduceOp reduce = op == Op::min ? ReduceOp::min : op == Op::max ? ReduceOp::max : ReduceOp::sum;
  communicator.all_reduce(data, reduce);
  if (op != Op::avg) return;
  const auto by = static_cast<float>(denominator == 0 ? communicator.size() : denominator);
  if (by == 1) return;
  for (float& value : data) value /= by;
}

}  // namespace sotto
