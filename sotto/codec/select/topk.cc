#include "sotto/codec/select/topk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>

#include "sotto/kernels/select.h"

namespace sotto {
namespace {

std::uint32_t magnitude(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU; }

// The lower edge of the bin that holds the k-th largest magnitude; at least 1, which leaves zeros out.
std::uint32_t edge_of_bin(std::span<const Group> groups, std::size_t k) {
  std::array<std::uint32_t, kernels::magnitude_bins> bins{};
  for (const Group& group : groups) kernels::count_magnitudes(group.energies, bins);
  std::size_t above = 0;
  std::uint32_t bin = kernels::magnitude_bins - 1;
  while (bin > 0 && (above += bins[bin]) < k) --bin;
  return std::max(bin << kernels::magnitude_shift, 1U);
}

}  // namespace

std::size_t TopK::share(std::size_t atoms) const {
  // A product that should be whole, as 0.07 * 100, may come out a little above it: that little is taken off.
  const double k = std::ceil(static_cast<double>(atoms) * options_.ratio * (1 - 1e-12));
  return std::min(static_cast<std::size_t>(k), atoms);
}

std::size_t TopK::limits(std::span<const std::size_t> atoms, std::span<std::size_t> each) const {
  if (whole_bucket()) {
    const std::size_t k = share(std::accumulate(atoms.begin(), atoms.end(), std::size_t{0}));
    std::transform(atoms.begin(), atoms.end(), each.begin(), [k](std::size_t n) { return std::min(n, k); });
    return k;
  }
  std::transform(atoms.begin(), atoms.end(), each.begin(), [this](std::size_t n) { return share(n); });
  return std::accumulate(each.begin(), each.end(), std::size_t{0});
}

std::size_t TopK::select(std::span<const Group> groups, const Streams&, std::span<std::uint32_t> indices,
                         std::span<std::size_t> counts, std::span<float>) {
  if (whole_bucket()) return select_from(groups, indices, counts);
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
  const std::size_t k = share(atoms);
  constexpr std::size_t few = 4 * kernels::magnitude_bins;  // below, counting into bins is dearer than what it saves
  const std::uint32_t edge = atoms > few ? edge_of_bin(groups, k) : 1U;

  // Everything from that bin upwards, ascending, with its magnitude.
  const auto candidates = candidates_.room(atoms);
  const auto magnitudes = magnitudes_.room(atoms);
  std::size_t found = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Group& group = groups[g];
    counts[g] = kernels::collect_magnitudes(group.energies, edge, group.first, candidates.data() + found);
    for (std::size_t j = found; j < found + counts[g]; ++j) {
      magnitudes[j] = magnitude(group.energies[candidates[j] - group.first]);
    }
    found += counts[g];
  }
  if (found <= k) {
    std::copy_n(candidates.begin(), found, indices.begin());
    return found;
  }

  // The k-th of them, and how many of its equals are still wanted.
  const auto kth = magnitudes.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(magnitudes.begin(), kth, magnitudes.begin() + static_cast<std::ptrdiff_t>(found), std::greater<>());
  const std::uint32_t least = *kth;
  auto equals = static_cast<std::size_t>(std::count(magnitudes.begin(), kth + 1, least));
  std::size_t kept = 0;
  std::size_t next = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Group& group = groups[g];
    const std::size_t end = next + counts[g];
    const std::size_t before = kept;
    for (; next < end; ++next) {
      const std::uint32_t m = magnitude(group.energies[candidates[next] - group.first]);
      if (m < least || (m == least && equals == 0)) continue;
      if (m == least) --equals;
      indices[kept++] = candidates[next];
    }
    counts[g] = kept - before;
  }
  return kept;
}

Contract TopK::contract(std::span<const std::size_t> atoms) const {
  // What is dropped is at most 1 - k/n of the square of the norm, in each group that is selected from.
  double delta = 1;
  const auto keep = [&](std::size_t n) {
    if (n > 0) delta = std::min(delta, static_cast<double>(share(n)) / static_cast<double>(n));
  };
  if (whole_bucket()) {
    keep(std::accumulate(atoms.begin(), atoms.end(), std::size_t{0}));
  } else {
    std::for_each(atoms.begin(), atoms.end(), keep);
  }
  return {.kind = Contract::Kind::contraction,
          .delta = delta,
          .input = Contract::Input::delta,
          .grain = Contract::Grain::segment};
}

}  // namespace sotto
