#include "sotto/codec/select/block.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sotto/codec/select/random_share.h"
#include "sotto/kernels/reduce.h"

namespace sotto {

std::size_t Block::limits(std::span<const std::size_t> atoms, std::span<std::size_t> each) const {
  std::ranges::transform(atoms, each.begin(), [this](std::size_t n) { return share_of(options_.ratio, blocks(n)); });
  return std::accumulate(each.begin(), each.end(), std::size_t{0});
}

void Block::reserve(std::size_t atoms, std::size_t groups) {
  if (blind()) return;
  const std::size_t most = blocks(atoms) + groups;
  norms_.room(most);
  candidates_.reserve(most);
}

std::size_t Block::select(std::span<const Group> groups, const Streams& streams, std::span<std::uint32_t> indices,
                          std::span<std::size_t> counts, std::span<float> scales) {
  std::size_t total = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Group& group = groups[g];
    if (!blind()) {
      total += select_largest(group, indices.subspan(total), counts.subspan(g, 1));
      continue;
    }
    const std::size_t n = blocks(group.atoms);
    const ElementStream stream = streams.stream(streams.selection, group.segment);
    const std::size_t k =
        take_random_share(workers(), options_.ratio, n, stream, group.number, group.first, indices.data() + total);
    if (options_.unbiased && k > 0) std::fill_n(&scales[total], k, static_cast<float>(n) / static_cast<float>(k));
    counts[g] = k;
    total += k;
  }
  return total;
}

// Norms are divided by the square root of `size`: that of the largest floats is a float then.
std::size_t Block::select_largest(const Group& group, std::span<std::uint32_t> indices, std::span<std::size_t> count) {
  const auto norms = norms_.room(blocks(group.atoms));
  const std::size_t grain = std::max<std::size_t>(workers().grain() / size_, 1);
  workers().run_stretches(norms.size(), grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t b = begin; b < end; ++b) {
      const std::size_t first = b * size_;
      const auto block = group.energies.subspan(first, std::min(size_, group.atoms - first));
      norms[b] = static_cast<float>(std::sqrt(kernels::sum_squares(block) / static_cast<double>(size_)));
    }
  });
  Group of_norms = group;
  of_norms.energies = norms;
  of_norms.atoms = norms.size();
  return candidates_.select_largest(workers(), share_of(options_.ratio, norms.size()), {&of_norms, 1}, indices, count);
}

Contract Block::contract(std::span<const std::size_t> atoms) const {
  std::vector<std::size_t> numbers(atoms.size());
  std::ranges::transform(atoms, numbers.begin(), [this](std::size_t n) { return blocks(n); });
  return contract_of_random_share(options_.ratio, options_.unbiased, numbers);  // the largest ones leave no more behind
}

}  // namespace sotto
