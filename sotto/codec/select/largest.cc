#include "sotto/codec/select/largest.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sotto {

std::size_t LargestSelect::limits(std::span<const std::size_t> atoms, std::span<std::size_t> each) const {
  if (traits().pools) {
    const std::size_t all = most(std::accumulate(atoms.begin(), atoms.end(), std::size_t{0}));
    std::ranges::transform(atoms, each.begin(), [all](std::size_t n) { return std::min(n, all); });
    return all;
  }
  std::ranges::transform(atoms, each.begin(), [this](std::size_t n) { return most(n); });
  return std::accumulate(each.begin(), each.end(), std::size_t{0});
}

std::size_t LargestSelect::select(std::span<const Group> groups, const Streams&, std::span<std::uint32_t> indices,
                                  std::span<std::size_t> counts, std::span<float>) {
  const std::size_t together = traits().pools ? groups.size() : 1;
  std::size_t total = 0;
  for (std::size_t g = 0; g < groups.size(); g += together) {
    const auto some = groups.subspan(g, together);
    std::size_t atoms = 0;
    for (const Group& group : some) atoms += group.energies.size();
    total += select_from(some, atoms, indices.subspan(total), counts.subspan(g, together));
  }
  return total;
}

Contract LargestSelect::contract(std::span<const std::size_t> atoms) const {
  double delta = 1;
  const auto keep = [&](std::size_t n) {
    if (n > 0) delta = std::min(delta, least_share(n));
  };
  if (traits().pools) {
    keep(std::accumulate(atoms.begin(), atoms.end(), std::size_t{0}));
  } else {
    std::ranges::for_each(atoms, keep);
  }
  if (delta == 0) return {.kind = Contract::Kind::none, .omega = INFINITY, .delta = 0};
  return {.kind = Contract::Kind::contraction, .delta = delta, .input = Contract::Input::delta};
}

}  // namespace sotto
