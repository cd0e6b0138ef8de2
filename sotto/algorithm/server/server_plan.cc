#include "sotto/algorithm/server/server_plan.h"

#include <algorithm>
#include <numeric>

namespace sotto {

void Shard::add(std::size_t index, const BucketPlan& plan) {
  parts_.push_back({static_cast<std::uint16_t>(index), plan, {size_, size_ + plan.range.size()}});
  size_ += plan.range.size();
}

void Shard::gather(std::span<const float> flat, std::span<float> own) const {
  for (const Part& part : parts_) {
    std::ranges::copy(flat.subspan(part.plan.range.begin, part.own.size()), own.begin() + part.own.begin);
  }
}

void Shard::scatter(std::span<const float> own, std::span<float> flat) const {
  for (const Part& part : parts_) {
    std::ranges::copy(own.subspan(part.own.begin, part.own.size()), flat.begin() + part.plan.range.begin);
  }
}

std::vector<Shard> share_out(std::span<const BucketPlan> buckets, std::size_t servers) {
  std::vector<std::size_t> order(buckets.size()), owner(buckets.size()), load(servers);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t b) { return buckets[b].range.size(); });
  for (const std::size_t bucket : order) {
    const auto least = static_cast<std::size_t>(std::ranges::min_element(load) - load.begin());
    owner[bucket] = least;
    load[least] += buckets[bucket].range.size();
  }
  std::vector<Shard> shards(servers);
  for (std::size_t b = 0; b < buckets.size(); ++b) shards[owner[b]].add(b, buckets[b]);
  return shards;
}

}  // namespace sotto
