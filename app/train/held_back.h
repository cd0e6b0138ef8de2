#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "sotto/algorithm/algorithm.h"

namespace sotto {

// Copies what the memory of an algorithm's recipe holds back to `values`, a vector of the model's layout. In the state
// of an algorithm that is called memory.NAME, or memory.NAME.v where a memory has several vectors. Returns false if
// there is none of that name and size, because the memory is split among ranks. REQUIRES drain().
bool copy_held_back(Algorithm& algorithm, std::string_view memory, std::span<const BucketPlan> buckets,
                    std::vector<float>& values);

}  // namespace sotto
