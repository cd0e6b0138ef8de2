#include "sotto/aggregate/aggregate.h"

namespace sotto {

void aggregate(std::span<float> data, Op op, Communicator& communicator, double denominator) {
  const ReduceOp reduce = op == Op::min ? ReduceOp::min : op == Op::max ? ReduceOp::max : ReduceOp::sum;
  communicator.all_reduce(data, reduce);
  if (op != Op::avg) return;
  const auto by = static_cast<float>(denominator == 0 ? communicator.size() : denominator);
  if (by == 1) return;
  for (float& value : data) value /= by;
}

}  // namespace sotto
