#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sotto/codec/codec.h"
#include "sotto/core/layout.h"

namespace sotto {

// The buckets that one server owns. They stand in its own vector, one after the other.
class Shard {
 public:
  struct Part {
    std::uint16_t index = 0;  // of the bucket
    BucketPlan plan;
    Range own;  // its place in the server's vector
    Range whole() const { return {0, own.size()}; }
  };

  void add(std::size_t index, const BucketPlan& plan);

  std::span<const Part> parts() const { return parts_; }
  std::size_t size() const { return size_; }
  // This part of a server's vector.
  static Bucket bucket(std::vector<float>& values, const Part& part) {
    return {std::span(values).subspan(part.own.begin, part.own.size()), &part.plan.layout, part.index};
  }
  // Copy between `flat`, the vector of all buckets, and `own`, the server's.
  void gather(std::span<const float> flat, std::span<float> own) const;
  void scatter(std::span<const float> own, std::span<float> flat) const;

 private:
  std::vector<Part> parts_;
  std::size_t size_ = 0;
};

// Deals the buckets to `servers` servers: the largest first, each to the server that has least so far.
std::vector<Shard> share_out(std::span<const BucketPlan> buckets, std::size_t servers);

}  // namespace sotto
