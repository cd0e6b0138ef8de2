#include "sotto/codec/select/topk.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sotto {

std::size_t TopK::limits(std::span<const std::size_t> atoms, std::span<std::size_t> each) const {
  if (pools()) {
    const std::size_t k = share_of(options_.ratio, std::accumulate(atoms.begin(), atoms.end(), std::size_t{0}));
    std::transform(atoms.begin(), atoms.end(), each.begin(), [k](std::size_t n) { return std::min(n, k); });
    return k;
  }
  std::transform(atoms.begin(), atoms.end(), each.begin(),
                 [this](std::size_t n) { return share_of(options_.ratio, n); });
  return std::accumulate(each.begin(), each.end(), std::size_t{0});
}

std::size_t TopK::select(std::span<const Group> groups, const Streams&, std::span<std::uint32_t> indices,
                         std::span<std::size_t> counts, std::span<float>) {
  if (pools()) return select_from(groups, indices, counts);
  std::size_t total = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    total += select_from(groups.subspan(g, 1), indices.subspan(total), counts.subspan(g, 1));
  }
  return total;
}

std::size_t TopK::select_from(std::span<const Group> groups, std::span<std::uint32_t> indices,
                              std::span<std::size_t> counts) {
  std::size_t atoms = 0;
  for (const Group& group : groups) atoms += group.energies.size();
  const std::size_t k = share_of(options_.ratio, atoms);
  if (k == 0) {
    std::fill(counts.begin(), counts.end(), std::size_t{0});
    return 0;
  }
  // A sample in which about 64 of the k are, as long as it is a small one, says what magnitude only few more than k
  // reach: that of a rank four standard deviations further down. Should fewer reach it, all are looked at.
  const double one_in = std::max(8.0, static_cast<double>(k) / 64);
  const auto sample = candidates_.sample(workers(), groups, static_cast<std::size_t>(one_in));
  const double expected = static_cast<double>(sample.size()) * static_cast<double>(k) / static_cast<double>(atoms);
  const std::uint32_t least =
      Candidates::ranked(workers(), sample, static_cast<std::size_t>(expected + 4 * std::sqrt(expected) + 4));
  if (candidates_.collect(workers(), groups, least, counts) < k && least > 1) {
    candidates_.collect(workers(), groups, 1, counts);
  }
  return candidates_.write_largest(workers(), k, groups, indices, counts);
}

Contract TopK::contract(std::span<const std::size_t> atoms) const {
  // What is dropped is at most 1 - k/n of the square of the norm, in each group that is selected from.
  double delta = 1;
  const auto keep = [&](std::size_t n) {
    if (n > 0) delta = std::min(delta, static_cast<double>(share_of(options_.ratio, n)) / static_cast<double>(n));
  };
  if (pools()) {
    keep(std::accumulate(atoms.begin(), atoms.end(), std::size_t{0}));
  } else {
    std::for_each(atoms.begin(), atoms.end(), keep);
  }
  return {.kind = Contract::Kind::contraction, .delta = delta, .input = Contract::Input::delta};
}

}  // namespace sotto
