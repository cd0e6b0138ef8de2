#include "sotto/codec/select/sampled_topk.h"

#include <algorithm>
#include <bit>
#include <cmath>

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

// Only the largest elements are sent: all of them, or at least the one sample whose magnitude is the threshold.
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
