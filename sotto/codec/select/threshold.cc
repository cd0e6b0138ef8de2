#include "sotto/codec/select/threshold.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "sotto/codec/select/candidates.h"
#include "sotto/codec/shared_work.h"
#include "sotto/kernels/reduce.h"

namespace sotto {

std::size_t Threshold::limits(std::span<const std::size_t> atoms, std::span<std::size_t> each) const {
  std::copy(atoms.begin(), atoms.end(), each.begin());
  return std::accumulate(atoms.begin(), atoms.end(), std::size_t{0});
}

std::size_t Threshold::select(std::span<const Group> groups, const Streams&, std::span<std::uint32_t> indices,
                              std::span<std::size_t> counts, std::span<float>) {
  std::size_t total = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Group& group = groups[g];
    auto least = options_.value > std::numeric_limits<float>::max() ? INFINITY : static_cast<float>(options_.value);
    if (relative()) {
      const std::uint32_t most = std::min(largest_magnitude(workers(), group.energies), kernels::infinity_bits - 1);
      least = std::min(least * std::bit_cast<float>(most), std::bit_cast<float>(most));
    }
    const std::uint32_t bits = std::max(std::bit_cast<std::uint32_t>(least), 1U);
    counts[g] = collect(workers(), group, bits, indices.data() + total);
    total += counts[g];
  }
  return total;
}

Contract Threshold::contract(std::span<const std::size_t> atoms) const {
  using Kind = Contract::Kind;
  if (options_.value == 0) return {.kind = Kind::contraction, .delta = 1, .input = Contract::Input::delta};
  if (!relative()) return {.kind = Kind::none, .omega = INFINITY, .delta = 0};
  // The largest element is always sent, and nothing that is dropped reaches `value` times it.
  const std::size_t largest =
      atoms.empty() ? 1 : std::max<std::size_t>(*std::max_element(atoms.begin(), atoms.end()), 1);
  return {.kind = Kind::contraction, .delta = 1 / static_cast<double>(largest), .input = Contract::Input::delta};
}

}  // namespace sotto
