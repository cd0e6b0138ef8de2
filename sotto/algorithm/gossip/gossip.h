#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "sotto/aggregate/gossiper.h"
#include "sotto/algorithm/algorithm.h"

namespace sotto {

// What algorithms on graphs have in common.

// For whole vectors, as the options say. ConfigError.
Gossiper make_gossiper(const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                       const Communicator& communicator);
// One for each bucket.
std::vector<Gossiper> make_gossipers(const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                                     const Communicator& communicator, Contract::Input input = Contract::Input::model);
void visit_gossipers(StateVisitor& visitor, std::span<Gossiper> gossipers);
// x / weight.
void divide(std::span<const float> x, double weight, std::span<float> quotient);
// x = the sum of all ranks' x over that of their weights, on every rank; weight = 1.
void agree_on(std::span<float> x, double& weight, Communicator& communicator);
// A rank's vector of that size, which is empty before the first step; FileError when another was read.
void visit_model(StateVisitor& visitor, std::string_view name, std::vector<float>& values, std::size_t size);
// A weight is kept as a double, bit for bit.
void visit_weight(StateVisitor& visitor, std::string_view name, double& weight);

}  // namespace sotto
