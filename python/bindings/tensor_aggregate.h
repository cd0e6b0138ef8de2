#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "sotto/comm/communicator.h"
#include "sotto/core/layout.h"

namespace sotto::python {

struct Aggregation {
  std::string op;     // "avg", "sum", "min" or "max"
  std::string codec;  // without memory
  std::string aggregator;
  std::uint64_t seed = 0;
  double denominator = 0;            // of "avg"; 0: the number of ranks
  std::size_t most = most_elements;  // elements of a message; fewer in tests
};

// Collective: the aggregate of every rank's tensor, as a new tensor on the CPU. If one rank refuses (ConfigError,
// NumericError), the others get a ConfigError; so do all if a rank aggregates differently.
at::Tensor aggregate(const at::Tensor& tensor, const Aggregation& how, Communicator& communicator);
// Called instead on a rank that has no tensor to aggregate.
void refuse_aggregate(Communicator& communicator);

}  // namespace sotto::python
