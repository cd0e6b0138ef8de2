#include "sotto/codec/select/sampled_topk.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace sotto {
namespace {

constexpr double too_many = 1.3;
constexpr double too_few = 0.8;
constexpr float lower = 0.8F;
constexpr int corrections = 10;

// At least two expected samples above the threshold.
std::size_t sample_size(std::size_t atoms, const SampledTopKOptions& options) {
  const double enough = std::min(std::ceil(2 / options.ratio), static_cast<double>(atoms) + 1);
  return std::max(share_of(options.sample, atoms), static_cast<std::size_t>(enough));
}

}  // namespace

std::size_t SampledTopK::most(std::size_t atoms) const {
  return std::min(atoms, static_cast<std::size_t>(too_many * static_cast<double>(share_of(options_.ratio, atoms))));
}

std::size_t SampledTopK::limits(std::span<const std::size_t> atoms, std::span<std::size_t> each) const {
  if (traits().pools) {
    const std::size_t all = most(std::accumulate(atoms.begin(), atoms.end(), std::size_t{0}));
    std::transform(atoms.begin(), atoms.end(), each.begin(), [all](std::size_t n) { return std::min(n, all); });
    return all;
  }
  std::transform(atoms.begin(), atoms.end(), each.begin(), [this](std::size_t n) { return most(n); });
  return std::accumulate(each.begin(), each.end(), std::size_t{0});
}

std::size_t SampledTopK::select(std::span<const Group> groups, const Streams&, std::span<std::uint32_t> indices,
                                std::span<std::size_t> counts, std::span<float>) {
  if (traits().pools) return select_from(groups, indices, counts);
  std::size_t total = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    total += select_from(groups.subspan(g, 1), indices.subspan(total), counts.subspan(g, 1));
  }
  return total;
}

std::size_t SampledTopK::select_from(std::span<const Group> groups, std::span<std::uint32_t> indices,
                                     std::span<std::size_t> counts) {
  std::size_t atoms = 0;
  for (const Group& group : groups) atoms += group.energies.size();
  const std::size_t k = share_of(options_.ratio, atoms);
  std::uint32_t least = 1;  // if k is n
  if (k < atoms) {
    const std::size_t stride = std::max<std::size_t>(atoms / sample_size(atoms, options_), 1);
    const auto sample = candidates_.sample(pool(), groups, stride);
    least = Candidates::ranked(pool(), sample, share_of(options_.ratio, sample.size()));
  }
  std::size_t found = candidates_.collect(pool(), groups, least, counts);
  for (int i = 0; i < corrections && static_cast<double>(found) < too_few * static_cast<double>(k) && least > 1; ++i) {
    least = std::max(std::bit_cast<std::uint32_t>(std::bit_cast<float>(least) * lower), 1U);
    found = candidates_.collect(pool(), groups, least, counts);
  }
  return found > most(atoms) ? candidates_.write_largest(pool(), k, groups, indices, counts)
                             : candidates_.write(indices);
}

Contract SampledTopK::contract(std::span<const std::size_t> atoms) const {
  // Only the largest elements are sent: all of them, or at least the one sample whose magnitude is the threshold.
  double delta = 1;
  const auto keep = [&](std::size_t n) {
    if (share_of(options_.ratio, n) < n) delta = std::min(delta, 1 / static_cast<double>(n));
  };
  if (traits().pools) {
    keep(std::accumulate(atoms.begin(), atoms.end(), std::size_t{0}));
  } else {
    std::for_each(atoms.begin(), atoms.end(), keep);
  }
  return {.kind = Contract::Kind::contraction, .delta = delta, .input = Contract::Input::delta};
}

}  // namespace sotto
