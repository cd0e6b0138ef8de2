#include "sotto/codec/select/threshold.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "sotto/codec/select/exponential_fit.h"
#include "sotto/codec/shared_work.h"
#include "sotto/kernels/reduce.h"

namespace sotto {

std::string ThresholdOptions::problem() const {
  if (const std::string wrong = DenseOption::problem(); !wrong.empty()) return wrong;
  const int said = at.has_value() + relative.has_value() + keep.has_value() + drop.has_value();
  if (said > 1) return "only one of at, relative, keep and drop says which elements go";
  const bool of_segments = relative || keep || drop;
  return scope == "bucket" && !of_segments ? "a given threshold is the same for all segments: it has no scope" : "";
}

// A product that should be whole, such as 0.29 * 100, may come out slightly too small.
std::size_t Threshold::kept(std::size_t atoms) const {
  const double dropped = std::floor(static_cast<double>(atoms) * value_ * (1 + 1e-12));
  return atoms - std::min(static_cast<std::size_t>(dropped), atoms);
}

std::size_t Threshold::select_from(std::span<const Group> groups, std::size_t atoms, std::span<std::uint32_t> indices,
                                   std::span<std::size_t> counts) {
  if (drops()) {
    if (const std::size_t k = kept(atoms); k > 0) {
      return candidates_.select_largest(pool(), k, groups, indices, counts, Candidates::Ties::all);
    }
  }
  const std::uint32_t least = least_of(groups);
  std::size_t total = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    counts[g] = collect(pool(), groups[g], least, indices.data() + total);
    total += counts[g];
  }
  return total;
}

std::uint32_t Threshold::least_of(std::span<const Group> groups) const {
  if (drops()) return kernels::infinity_bits;  // keeps only values that are not finite
  if (options_.keep) return fit_exponential(pool(), groups, value_);
  auto least = value_ > std::numeric_limits<float>::max() ? INFINITY : static_cast<float>(value_);
  if (options_.relative) {
    std::uint32_t most = 0;
    for (const Group& group : groups) most = std::max(most, largest_magnitude(pool(), group.energies));
    const auto largest = std::bit_cast<float>(std::min(most, kernels::infinity_bits - 1));
    least = std::min(least * largest, largest);
  }
  return std::max(std::bit_cast<std::uint32_t>(least), 1U);
}

Contract Threshold::contract(std::span<const std::size_t> atoms) const {
  using Kind = Contract::Kind;
  if (value_ == 0) return {.kind = Kind::contraction, .delta = 1, .input = Contract::Input::delta};
  if (!options_.relative && !options_.keep && !drops()) return {.kind = Kind::none, .omega = INFINITY, .delta = 0};
  return LargestSelect::contract(atoms);
}

}  // namespace sotto
