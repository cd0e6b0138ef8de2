#pragma once

#include <ATen/core/Tensor.h>

#include "sotto/capi/vector_gossip.h"

namespace sotto::python {

// One round of gossip on a tensor of float32, float16 or bfloat16, in place; returns its new weight. ConfigError for
// wrong arguments: nothing was sent, and neighbours wait for the next call.
double mix(VectorGossip& gossip, const at::Tensor& tensor, double weight);

}  // namespace sotto::python
