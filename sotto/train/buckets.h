#pragma once

#include <vector>

#include "sotto/core/layout.h"
#include "sotto/train/options.h"

namespace sotto {

// Puts a size that --buckets says into bucket_kib. ConfigError when it says anything else but layer or whole, or
// --bucket-kib another size.
void resolve_buckets(TrainOptions& options);
// What is exchanged at once. REQUIRES resolve_buckets().
std::vector<BucketPlan> plan_buckets(const Layout& layout, const TrainOptions& options);
// "layer", "whole" or the KiB of the largest: for checkpoints.
std::string bucket_text(const TrainOptions& options);

}  // namespace sotto
