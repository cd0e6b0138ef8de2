#include "sotto/codec/select/topk.h"

#include <bit>
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

std::size_t TopK::most(std::size_t atoms) const {
  return options_.count ? std::min(atoms, static_cast<std::size_t>(*options_.count)) : share_of(options_.ratio, atoms);
}

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

// Sends only the largest elements: all elements if k is n, otherwise at least the sampled one that has the magnitude of
// the threshold.
double SampledTopK::least_share(std::size_t atoms) const {
  return share_of(options_.ratio, atoms) < atoms ? 1 / static_cast<double>(atoms) : 1;
}

std::size_t SampledTopK::select_from(std::span<const Group> groups, std::size_t atoms, std::span<std::uint32_t> indices,
                                     std::span<std::size_t> counts) {
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

}  // namespace sotto
