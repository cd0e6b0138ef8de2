#pragma once

#include <cstddef>
#include <cstdint>

namespace sotto {

// Which buckets ranks exchange after which of their own steps. Buckets are dealt to shards in turn (the strided pattern
// of Streaming DiLoCo). Each shard is exchanged once in h steps, and shards are spread evenly over these steps. In the
// first `after` steps every shard is exchanged after each one.
class Turns {
 public:
  // REQUIRES h >= 1 and 1 <= shards <= buckets.
  Turns(std::uint64_t h, std::uint64_t after, std::size_t shards, std::size_t buckets)
      : h_(h), after_(after), shards_(shards), buckets_(buckets) {}

  // The last bucket is in the last shard, so all buckets have had their turn when that shard had.
  std::size_t shard_of(std::size_t bucket) const { return shards_ - 1 - (buckets_ - 1 - bucket) % shards_; }
  bool due(std::uint64_t step, std::size_t shard) const {
    if (step < after_) return true;
    const std::uint64_t turn = (shard + 1) * h_ / shards_;  // h for the last shard
    return (step - after_ + 1) % h_ == turn % h_;
  }
  bool any_due(std::uint64_t step) const {
    for (std::size_t shard = 0; shard < shards_; ++shard) {
      if (due(step, shard)) return true;
    }
    return false;
  }

 private:
  std::uint64_t h_, after_;
  std::size_t shards_, buckets_;
};

}  // namespace sotto
