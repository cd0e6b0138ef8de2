#include "sotto/codec/select/water_level.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "sotto/codec/shared_work.h"
#include "sotto/kernels/draw.h"
#include "sotto/kernels/reduce.h"
#include "sotto/kernels/select.h"

namespace sotto {
namespace {

// The split of a chunk: how many magnitudes reach a bound, and the sum of the others.
struct Split {
  std::size_t reach = 0;
  double below = 0;
};

// Writes the magnitudes that reach `least`.
Split split_chunk(std::span<const float> energies, std::uint32_t least, std::span<float> out) {
  std::array<std::uint32_t, 4096> indices;  // atoms that are read twice while in the cache
  Split split;
  for (std::size_t begin = 0; begin < energies.size(); begin += indices.size()) {
    const auto part = energies.subspan(begin, std::min(indices.size(), energies.size() - begin));
    const std::size_t count = kernels::collect_magnitudes(part, least, 0, indices.data());
    for (std::size_t j = 0; j < count; ++j) out[split.reach++] = std::abs(part[indices[j]]);
    split.below += kernels::sum_abs_below(part, least);
  }
  return split;
}

}  // namespace

double WaterLevel::find(ThreadPool& pool, std::span<const Group> groups, double s) {
  double sum = 0;
  std::uint32_t most = 0;
  std::size_t atoms = 0;
  for (const Group& group : groups) {
    const auto of = [&](std::size_t begin, std::size_t end) {
      return kernels::spread_abs(group.energies.subspan(begin, end - begin));
    };
    const kernels::Spread spread = spread_of_chunks(pool, group.energies.size(), of);
    sum += spread.sum;
    most = std::max(most, spread.max_abs_bits);
    atoms += group.energies.size();
  }
  if (most >= kernels::infinity_bits) return INFINITY;
  if (s >= static_cast<double>(atoms)) return 0;  // all are certain; rounding would make a chance of just below 1
  double level = sum / s;
  if (static_cast<double>(std::bit_cast<float>(most)) <= level) return level;

  // Atoms that reach the level are certain. Without them the level falls, and more atoms may reach it. Usually few
  // atoms are near the level, so only these are searched; if the level falls below them, more atoms are searched.
  const auto candidates = candidates_.room(atoms);
  for (int attempt = 0;; ++attempt) {
    const double least = attempt < 3 ? level / 4 : 0;
    const std::uint32_t bits = std::max(std::bit_cast<std::uint32_t>(static_cast<float>(least)), 1U);
    std::size_t found = 0;
    double rest = 0;
    for (const Group& group : groups) {
      const auto out = candidates.subspan(found);
      const auto split = [&](std::size_t begin, std::size_t end) {
        return split_chunk(group.energies.subspan(begin, end - begin), bits, out.subspan(begin));
      };
      std::size_t of_group = 0;
      join_in_order<Split>(pool, group.energies.size(), kernels::sum_chunk, split,
                           [&](std::size_t begin, const Split& chunk) {
                             std::copy_n(&out[begin], chunk.reach, &out[of_group]);
                             of_group += chunk.reach;
                             rest += chunk.below;
                           });
      found += of_group;
    }
    level = among(candidates.first(found), rest, s);
    if (bits == 1 || level >= std::bit_cast<float>(bits)) return level;
  }
}

// In descending order e_1 >= e_2 >= ..., e_i is certain exactly if e_i (s - i + 1) > e_i + e_(i+1) + ..., and if e_i is
// not certain, no later one is. A binary search therefore finds the border. All sums are of positive numbers, so no
// precision is lost.
double WaterLevel::among(std::span<float> candidates, double rest, double s) {
  double certain = 0;  // number of certain atoms
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
