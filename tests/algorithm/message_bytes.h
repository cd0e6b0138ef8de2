#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "sotto/aggregate/aggregator.h"
#include "sotto/aggregate/recipe.h"
#include "sotto/codec/codec.h"
#include "sotto/core/layout.h"

namespace sotto::test {

// The bytes of the messages of these buckets. The codec must be one whose messages all have the largest size.
inline std::uint64_t message_bytes(const std::string& codec, std::span<const BucketPlan> buckets) {
  const auto made = make_codec(read_recipe(codec).stages);
  std::uint64_t sum = 0;
  for (const BucketPlan& bucket : buckets) sum += made->max_bytes(bucket.layout, {0, bucket.layout.size()});
  return sum;
}

}  // namespace sotto::test
