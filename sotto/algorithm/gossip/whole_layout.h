#pragma once

#include <span>

#include "sotto/core/layout.h"

namespace sotto {

// Of the vector that was cut into these buckets.
Layout whole_layout(std::span<const BucketPlan> buckets);

}  // namespace sotto
