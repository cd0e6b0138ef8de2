#include "sotto/codec/select/candidates.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "sotto/kernels/element.h"
#include "sotto/kernels/select.h"

namespace sotto {

std::size_t share_of(double ratio, std::size_t n) {
  const double k = std::ceil(static_cast<double>(n) * ratio * (1 - 1e-12));
  return std::min(static_cast<std::size_t>(k), n);
}

std::span<std::uint32_t> Candidates::sample(std::span<const Group> groups, std::size_t stride) {
  std::size_t count = 0;
  for (const Group& group : groups) count += group.energies.size() / stride;
  const auto sample = magnitudes_.room(count);
  std::size_t next = 0;
  for (const Group& group : groups) {
    for (std::size_t j = 0; j < group.energies.size() / stride; ++j) {
      const std::size_t within = (std::uint64_t{ElementStream::mix(static_cast<std::uint32_t>(j))} * stride) >> 32;
      sample[next++] = kernels::element::magnitude_bits(group.energies[j * stride + within]);
    }
  }
  return sample;
}

std::uint32_t Candidates::ranked(std::span<std::uint32_t> sample, std::size_t rank) {
  if (sample.empty()) return 1;
  const auto place = sample.begin() + static_cast<std::ptrdiff_t>(std::clamp<std::size_t>(rank, 1, sample.size()) - 1);
  std::nth_element(sample.begin(), place, sample.end(), std::greater<>());
  return std::max(*place, 1U);
}

std::size_t Candidates::collect(std::span<const Group> groups, std::uint32_t least, std::span<std::size_t> counts) {
  std::size_t atoms = 0;
  for (const Group& group : groups) atoms += group.energies.size();
  const auto numbers = numbers_.room(atoms);
  found_ = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    counts[g] = kernels::collect_magnitudes(groups[g].energies, least, groups[g].first, numbers.data() + found_);
    found_ += counts[g];
  }
  return found_;
}

std::size_t Candidates::write(std::span<std::uint32_t> indices) const {
  std::copy_n(numbers_.data(), found_, indices.begin());
  return found_;
}

std::size_t Candidates::write_largest(std::size_t k, std::span<const Group> groups, std::span<std::uint32_t> indices,
                                      std::span<std::size_t> counts) {
  if (found_ <= k) return write(indices);
  const auto magnitude = [&](const Group& group, std::size_t j) {
    return kernels::element::magnitude_bits(group.energies[numbers_.data()[j] - group.first]);
  };
  const auto magnitudes = magnitudes_.room(found_);
  std::size_t next = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const std::size_t end = next + counts[g]; next < end; ++next) magnitudes[next] = magnitude(groups[g], next);
  }
  // The k-th of them, and how many of its equals are still wanted.
  const auto kth = magnitudes.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(magnitudes.begin(), kth, magnitudes.end(), std::greater<>());
  const std::uint32_t least = *kth;
  auto equals = static_cast<std::size_t>(std::count(magnitudes.begin(), kth + 1, least));
  std::size_t kept = 0;
  next = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::size_t before = kept;
    for (const std::size_t end = next + counts[g]; next < end; ++next) {
      const std::uint32_t m = magnitude(groups[g], next);
      if (m < least || (m == least && equals == 0)) continue;
      if (m == least) --equals;
      indices[kept++] = numbers_.data()[next];
    }
    counts[g] = kept - before;
  }
  return kept;
}

}  // namespace sotto
