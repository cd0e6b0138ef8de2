#include "sotto/codec/select/water_level.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "sotto/kernels/draw.h"
#include "sotto/kernels/reduce.h"
#include "sotto/kernels/select.h"

namespace sotto {
namespace {

constexpr std::size_t chunk = 4096;  // atoms that are looked at twice while they are in the cache

}  // namespace

double WaterLevel::find(std::span<const Group> groups, double s) {
  double sum = 0;
  std::uint32_t most = 0;
  std::size_t atoms = 0;
  for (const Group& group : groups) {
    const kernels::Spread spread = kernels::spread_abs(group.energies);
    sum += spread.sum;
    most = std::max(most, spread.max_abs_bits);
    atoms += group.energies.size();
  }
  if (most >= kernels::infinity_bits) return INFINITY;
  double level = sum / s;
  if (static_cast<double>(std::bit_cast<float>(most)) <= level) return level;

  // Atoms that reach the level are certain; without them it falls, and others may reach it. Those that come near it are
  // few, as a rule: look at them alone, and at more of them when the level falls below what was looked at.
  const auto candidates = candidates_.room(atoms);
  const auto indices = indices_.room(std::min(atoms, chunk));
  for (int attempt = 0;; ++attempt) {
    const double least = attempt < 3 ? level / 4 : 0;
    const std::uint32_t bits = std::max(std::bit_cast<std::uint32_t>(static_cast<float>(least)), 1U);
    std::size_t found = 0;
    double rest = 0;
    for (const Group& group : groups) {
      for (std::size_t begin = 0; begin < group.energies.size(); begin += chunk) {
        const auto part = group.energies.subspan(begin, std::min(chunk, group.energies.size() - begin));
        const std::size_t count = kernels::collect_magnitudes(part, bits, 0, indices.data());
        for (std::size_t j = 0; j < count; ++j) candidates[found + j] = std::abs(part[indices[j]]);
        found += count;
        rest += kernels::sum_abs_below(part, bits);
      }
    }
    level = among(candidates.first(found), rest, s);
    if (bits == 1 || level >= std::bit_cast<float>(bits)) return level;
  }
}

// In descending order e_1 >= e_2 >= ..., e_i is certain just when e_i (s - i + 1) > e_i + e_(i+1) + ..., and when it is
// not, nor is any after it. So halving finds the border; sums are of positive numbers only, and lose nothing.
double WaterLevel::among(std::span<float> candidates, double rest, double s) {
  double certain = 0;  // how many
  while (!candidates.empty()) {
    const auto middle = candidates.begin() + static_cast<std::ptrdiff_t>(candidates.size() / 2);
    std::ranges::nth_element(candidates, middle, std::greater<>());
    const float pivot = *middle;
    const auto equal = std::partition(candidates.begin(), middle, [pivot](float x) { return x > pivot; });
    const auto less = std::partition(middle, candidates.end(), [pivot](float x) { return x == pivot; });
    const double below = std::accumulate(less, candidates.end(), 0.0);
    const auto greater = static_cast<double>(equal - candidates.begin());
    const auto same = static_cast<double>(less - equal);
    const double remaining = rest + below + same * pivot;
    if (pivot * (s - certain - greater) > remaining) {
      certain += greater + same;
      candidates = {less, candidates.end()};
    } else {
      rest = remaining;
      candidates = {candidates.begin(), equal};
    }
  }
  return rest > 0 ? rest / (s - certain) : 0;
}

}  // namespace sotto
