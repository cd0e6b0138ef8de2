#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "sotto/comm/communicator.h"

namespace sotto::python {

struct Aggregation {
  std::string op;     // "avg", "sum", "min" or "max"
  std::string codec;  // a sentence without memory
  std::string aggregator;
  std::uint64_t seed = 0;
  double denominator = 0;  // of "avg", in place of the number of ranks; 0: that
};

// Collective: the aggregate of every rank's tensor, as a new one on the CPU. What one rank refuses (ConfigError,
// NumericError) is a ConfigError on the others, as is a rank that aggregates differently.
at::Tensor aggregate(const at::Tensor& tensor, const Aggregation& how, Communicator& communicator);
// In its place, on a rank that has no tensor to aggregate.
void refuse_aggregate(Communicator& communicator);

}  // namespace sotto::python
