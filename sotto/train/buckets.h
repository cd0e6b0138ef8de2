#pragma once

#include <vector>

#include "sotto/core/layout.h"
#include "sotto/train/options.h"

namespace sotto {

// What is exchanged at once, as --buckets says. ConfigError when that is neither layer nor whole nor a size.
std::vector<BucketPlan> plan_buckets(const Layout& layout, const TrainOptions& options);
// Throws what that would throw.
void check_buckets(const TrainOptions& options);
// "layer", "whole" or the bytes of the largest: for checkpoints.
std::string bucket_text(const TrainOptions& options);

}  // namespace sotto
