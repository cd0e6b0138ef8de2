#include "sotto/codec/select/topk.h"

#include <algorithm>
#include <numeric>

namespace sotto {

std::size_t TopK::wanted(std::size_t atoms) const {
  return options_.count > 0 ? std::min(atoms, static_cast<std::size_t>(options_.count))
                            : share_of(options_.ratio, atoms);
}

std::size_t TopK::limits(std::span<const std::size_t> atoms, std::span<std::size_t> each) const {
  if (traits().pools) {
    const std::size_t k = wanted(std::accumulate(atoms.begin(), atoms.end(), std::size_t{0}));
    std::transform(atoms.begin(), atoms.end(), each.begin(), [k](std::size_t n) { return std::min(n, k); });
    return k;
  }
  std::transform(atoms.begin(), atoms.end(), each.begin(), [this](std::size_t n) { return wanted(n); });
  return std::accumulate(each.begin(), each.end(), std::size_t{0});
}

std::size_t TopK::select(std::span<const Group> groups, const Streams&, std::span<std::uint32_t> indices,
                         std::span<std::size_t> counts, std::span<float>) {
  const std::size_t together = traits().pools ? groups.size() : 1;
  std::size_t total = 0;
  for (std::size_t g = 0; g < groups.size(); g += together) {
    const auto some = groups.subspan(g, together);
    std::size_t atoms = 0;
    for (const Group& group : some) atoms += group.energies.size();
    total +=
        candidates_.select_largest(pool(), wanted(atoms), some, indices.subspan(total), counts.subspan(g, together));
  }
  return total;
}

Contract TopK::contract(std::span<const std::size_t> atoms) const {
  // In each group the dropped elements have at most 1 - k/n of the square of the norm.
  double delta = 1;
  const auto keep = [&](std::size_t n) {
    if (n > 0) delta = std::min(delta, static_cast<double>(wanted(n)) / static_cast<double>(n));
  };
  if (traits().pools) {
    keep(std::accumulate(atoms.begin(), atoms.end(), std::size_t{0}));
  } else {
    std::for_each(atoms.begin(), atoms.end(), keep);
  }
  return {.kind = Contract::Kind::contraction, .delta = delta, .input = Contract::Input::delta};
}

}  // namespace sotto
