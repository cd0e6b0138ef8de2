#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "sotto/codec/codec.h"
#include "sotto/core/layout.h"
#include "sotto/core/state.h"

namespace sotto {

// One float for every element of every bucket, zero at first. Memories are made of such vectors.
class BucketVector {
 public:
  explicit BucketVector(std::span<const BucketPlan> buckets) {
    std::size_t size = 0;
    for (const BucketPlan& plan : buckets) {
      begins_.push_back(size);
      size += plan.range.size();
    }
    values_.resize(size);
  }

  // The floats that belong to this bucket, as a bucket of the same layout.
  Bucket beside(const Bucket& bucket) {
    Bucket own = bucket;
    own.values = std::span(values_).subspan(begins_.at(bucket.index), bucket.values.size());
    return own;
  }
  void visit_state(StateVisitor& visitor, std::string_view name) { visitor.visit(name, values_); }

 private:
  std::vector<std::size_t> begins_;  // offset of each bucket
  std::vector<float> values_;
};

}  // namespace sotto
