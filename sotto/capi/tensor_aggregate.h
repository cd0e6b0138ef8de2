#pragma once

#include "sotto/capi/sotto.h"
#include "sotto/comm/communicator.h"

namespace sotto::capi {

// See sotto_aggregate(). If one rank refuses (ConfigError, NumericError; `tensor` is null), the others get a
// ConfigError; so do all if a rank aggregates differently.
void aggregate(const sotto_tensor* tensor, const sotto_aggregate_options& options, Communicator& communicator);

}  // namespace sotto::capi
