#include "sotto/codec/select/threshold.h"

#include <bit>
#include <cmath>

#include "sotto/codec/shared_work.h"
#include "sotto/kernels/reduce.h"

namespace sotto {
namespace {

constexpr double most_at_once = 4;
constexpr int most_stages = 16;  // 4^16 is the largest possible number of atoms

kernels::Spread spread_of(ThreadPool& pool, std::span<const Group> groups) {
  kernels::Spread all;
  for (const Group& group : groups) {
    const kernels::Spread its = spread_of_chunks(pool, group.energies.size(), [&](std::size_t begin, std::size_t end) {
      return kernels::spread_abs(group.energies.subspan(begin, end - begin));
    });
    all.sum += its.sum;
    all.max_abs_bits = std::max(all.max_abs_bits, its.max_abs_bits);
  }
  return all;
}

kernels::Reaching reaching(ThreadPool& pool, std::span<const Group> groups, std::uint32_t least) {
  kernels::Reaching all;
  for (const Group& group : groups) {
    double sum = 0;
    join_in_order<kernels::Reaching>(
        pool, group.energies.size(), kernels::sum_chunk,
        [&](std::size_t begin, std::size_t end) {
          return kernels::reaching(group.energies.subspan(begin, end - begin), least);
        },
        [&](std::size_t, const kernels::Reaching& chunk) {
          sum += chunk.sum;
          all.count += chunk.count;
        });
    all.sum += sum;
  }
  return all;
}

// Estimates the magnitude, as bits, that about a share `ratio` of all atoms of these groups reaches, if the magnitudes
// have an exponential tail. The result is at least 1 and at most the largest magnitude. It works in stages, as SIDCo
// (Abdelmoniem et al., MLSys 2021): if the atoms above the current threshold exceed it by m on average, one in r of
// them exceeds it by m ln r; r is at most 4. Each stage counts the atoms above the last threshold, so only the last
// stage's error remains. Each stage is a pass over all atoms; a ratio of 0.01 takes four.
std::uint32_t fit_exponential(ThreadPool& pool, std::span<const Group> groups, double ratio) {
  std::size_t atoms = 0;
  for (const Group& group : groups) atoms += group.energies.size();
  const kernels::Spread spread = spread_of(pool, groups);
  const std::uint32_t most = std::max(spread.max_abs_bits, 1U);
  if (most >= kernels::infinity_bits) return kernels::infinity_bits;  // the quantiser reports these
  const auto wanted = static_cast<double>(share_of(ratio, atoms));
  kernels::Reaching those{spread.sum, atoms};
  std::uint32_t least = 0;
  for (int stage = 0; stage<most_stages&& static_cast<double>(those.count)> wanted; ++stage) {
    if (stage > 0) those = reaching(pool, groups, least);
    const auto count = static_cast<double>(those.count);
    const double from = static_cast<double>(std::bit_cast<float>(least));
    const double one_in = std::clamp(count / wanted, 1.0, most_at_once);
    const double level = from + (those.sum / count - from) * std::log(one_in);
    const auto rounded = std::bit_cast<std::uint32_t>(
        static_cast<float>(std::min(level, static_cast<double>(std::bit_cast<float>(most)))));
    if (rounded <= least) break;  // the remaining atoms are equal
    least = rounded;
    if (one_in < most_at_once) break;
  }
  return std::clamp(least, 1U, most);
}

}  // namespace

std::string ThresholdOptions::problem() const {
  if (const std::string wrong = DenseOption::problem(); !wrong.empty()) return wrong;
  const int given = at.has_value() + relative.has_value() + keep.has_value() + drop.has_value();
  if (given > 1) return "only one of at, relative, keep and drop says which elements go";
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
