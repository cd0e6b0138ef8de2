#pragma once

#include <string_view>
#include <vector>

#include "sotto/algorithm/algorithm.h"

namespace sotto {

// The phases of these options, for an algorithm of this name that exchanges differences of models. ConfigError for what
// suits gradients alone: codecs whose contract says so, memories that make a momentum or use the rate, and `auto`.
std::vector<Phase> phases_of_differences(std::string_view algorithm, const AlgorithmOptions& options,
                                         std::span<const BucketPlan> buckets);

}  // namespace sotto
