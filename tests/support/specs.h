#pragma once

#include <string_view>

#include "sotto/algorithm/algorithm.h"
#include "sotto/core/layout.h"
#include "sotto/optim/optimiser.h"
#include "sotto/topology/mixing.h"
#include "sotto/topology/table.h"

namespace sotto::test {

// The specs that a front end reads from a user's text.
inline AlgorithmSpec algorithm(std::string_view text) { return read_algorithm("algorithm", text); }
inline OptimiserSpec optimiser(std::string_view text) { return optimiser_table().read("optimiser", text); }
inline TopologySpec topology(std::string_view text) { return read_topology(text); }
// A vector that is a single tensor of one dimension.
inline Layout flat(std::size_t size) { return Layout({{"x", 0, {static_cast<std::int64_t>(size)}}}, size); }
// An empty text gives an empty spec: the topology's default mixing.
inline MixingSpec mixing(std::string_view text) { return read_mixing(text); }

}  // namespace sotto::test
