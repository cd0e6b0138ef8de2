#include "sotto/train/follower.h"

#include <algorithm>

namespace sotto {

double Follower::compute_gradient(std::uint64_t /*step*/, const BucketCalls& calls) {
  const std::size_t buckets = replica_.buckets().size();
  for (std::size_t b = 0; b < buckets; ++b) calls.needed(b);
  std::ranges::fill(gradient(), 0.0F);
  for (std::size_t b = 0; b < buckets; ++b) calls.ready(b);
  return 0;
}

std::size_t Follower::kept_bytes() const { return means_.kept.size() * replica_.gradient().size() * sizeof(float); }

void Follower::catch_up(const std::function<double(std::uint64_t step)>& lr) {
  for (Mean& mean : means_.kept) {
    replica_.optimiser().begin_step(mean.step);
    replica_.optimiser().apply(replica_.parameters(), mean.values, 0, lr(mean.step));
  }
  means_.kept.clear();
}

}  // namespace sotto
