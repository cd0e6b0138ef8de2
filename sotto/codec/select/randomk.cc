#include "sotto/codec/select/randomk.h"

#include <algorithm>
#include <numeric>

#include "sotto/codec/select/candidates.h"

namespace sotto {

std::size_t RandomK::limits(std::span<const std::size_t> atoms, std::span<std::size_t> each) const {
  std::ranges::transform(atoms, each.begin(), [this](std::size_t n) { return share_of(options_.ratio, n); });
  return std::accumulate(each.begin(), each.end(), std::size_t{0});
}

std::size_t RandomK::select(std::span<const Group> groups, const Streams& streams, std::span<std::uint32_t> indices,
                            std::span<std::size_t> counts, std::span<float> scales) {
  std::size_t total = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Group& group = groups[g];
    const ElementStream stream = streams.stream(streams.selection, group.segment);
    const std::size_t k = take_random_share(workers(), options_.ratio, group.atoms, stream, group.number, group.first,
                                            indices.data() + total);
    if (options_.unbiased && k > 0)
      std::fill_n(&scales[total], k, static_cast<float>(group.atoms) / static_cast<float>(k));
    counts[g] = k;
    total += k;
  }
  return total;
}

}  // namespace sotto
