#include "sotto/codec/quantise/alq.h"

namespace sotto {

bool descend(const LevelSample& sample, std::span<float> levels) {
  bool moved = false;
  for (std::size_t j = 1; j + 1 < levels.size(); ++j) {
    const double low = levels[j - 1];
    const double high = levels[j + 1];
    const std::size_t first = sample.up_to(levels[j - 1]);
    const std::size_t last = sample.below(levels[j + 1]);
    if (first >= last) continue;
    // The variance is a convex function of the level with corners at the shares: its slope after share i is the slope
    // of sum(w (r - low)) over the shares between the neighbours, less (high - low) times the weight of the shares
    // above i. The level is the first share after which the variance falls no more. (Theorem 1 of the paper, for a
    // sample.)
    const LevelSample::Moments all = sample.sum(first, last);
    const double rise = all.shares - low * all.weight;
    std::size_t begin = first;
    std::size_t end = last - 1;
    while (begin < end) {
      const std::size_t middle = begin + (end - begin) / 2;
      if ((high - low) * sample.sum(middle + 1, last).weight <= rise) {
        end = middle;
      } else {
        begin = middle + 1;
      }
    }
    moved = moved || levels[j] != sample.shares()[begin];
    levels[j] = sample.shares()[begin];
  }
  return moved;
}

void Alq::fit(const LevelSample& sample, std::span<float> levels) {
  const auto top = static_cast<float>(levels.size() - 1);
  for (std::size_t j = 1; j + 1 < levels.size(); ++j) levels[j] = static_cast<float>(j) / top;
  for (std::int64_t round = 0; round < rounds_ && descend(sample, levels); ++round) {
  }
}

}  // namespace sotto
