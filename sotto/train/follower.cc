#include "sotto/train/follower.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace sotto {

double Follower::compute_gradient(std::uint64_t /*step*/, const BucketCalls& calls) {
  const std::size_t buckets = replica_.buckets().size();
  for (std::size_t b = 0; b < buckets; ++b) calls.needed(b);
  std::ranges::fill(gradient(), 0.0F);
  for (std::size_t b = 0; b < buckets; ++b) calls.ready(b);
  return 0;
}

void Follower::Means::apply(std::span<float> /*parameters*/, std::span<float> mean, std::size_t /*begin*/,
                            double /*lr*/) {
  const auto is_there = [](float value) { return std::bit_cast<std::uint32_t>(value) != 0; };
  const auto count = static_cast<std::size_t>(std::ranges::count_if(mean, is_there));
  Mean& last = kept.back();
  if (2 * count < mean.size() && mean.size() <= std::numeric_limits<std::uint32_t>::max()) {
    last.places.reserve(count + 1);
    last.values.reserve(count + 1);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      if (!is_there(mean[i]) && i > 0) continue;
      last.places.push_back(static_cast<std::uint32_t>(i));
      last.values.push_back(mean[i]);
    }
  } else {
    last.values.assign(mean.begin(), mean.end());
  }
  bytes += last.bytes();
}

bool Follower::catch_up(const std::function<double(std::uint64_t step)>& lr, Clock::time_point until) {
  std::vector<float> whole;
  for (; !means_.kept.empty() && Clock::now() < until; means_.kept.pop_front()) {
    Mean& mean = means_.kept.front();
    means_.bytes -= mean.bytes();
    if (mean.places.empty()) {
      whole = std::move(mean.values);
    } else {
      whole.assign(replica_.gradient().size(), 0.0F);
      for (std::size_t i = 0; i < mean.places.size(); ++i) whole[mean.places[i]] = mean.values[i];
    }
    replica_.optimiser().begin_step(mean.step);
    replica_.optimiser().apply(replica_.parameters(), whole, 0, lr(mean.step));
  }
  return means_.kept.empty();
}

}  // namespace sotto
