#include "sotto/codec/select/atomo.h"

#include <bit>
#include <cmath>
#include <numeric>

#include "sotto/codec/select/candidates.h"
#include "sotto/codec/shared_work.h"
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

namespace {

bool needs_budget(const std::string& p) { return p != "max" && p != "l2"; }

}  // namespace

std::string AtomoOptions::problem() const {
  if (const std::string wrong = DenseOption::problem(); !wrong.empty()) return wrong;
  const bool given = s != "none";
  if (!needs_budget(p)) return given ? "p=" + p + " has no s: its probabilities follow from the energies alone" : "";
  if (!given) return "s is missing: how many atoms to send on average, as in atomo(s=3) or atomo(s=5%)";
  try {
    const double value = parse_double("s", s);
    if (!(value > 0) || !std::isfinite(value)) return "s must be above 0";
    if (!s.ends_with('%') && value < 1) return "s is a number of atoms, at least 1; a share is written as in s=5%";
    if (s.ends_with('%') && value > 1) return "s must be at most 100%";
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

Atomo::Atomo(const AtomoOptions& options) : options_(options), is_share_(options.s.ends_with('%')) {
  if (needs_budget(options.p)) s_ = parse_double("s", options.s);
}

std::size_t Atomo::limits(std::span<const std::size_t> atoms, std::span<std::size_t> each) const {
  std::ranges::copy(atoms, each.begin());  // all of them may be drawn
  return std::accumulate(atoms.begin(), atoms.end(), std::size_t{0});
}

double Atomo::budget(std::size_t atoms) const { return is_share_ ? s_ * static_cast<double>(atoms) : s_; }

double Atomo::factor(std::span<const Group> groups) {
  std::size_t atoms = 0;
  for (const Group& group : groups) atoms += group.energies.size();
  if (atoms == 0) return 0;
  const double s = budget(atoms);
  double whole = 0;  // the norm that divides the energies
  if (options_.p == "waterfill") {
    whole = level_.find(pool(), groups, s);
  } else {
    const bool squares = options_.p == "l2";
    for (const Group& group : groups) {
      const auto of = [&](std::size_t begin, std::size_t end) {
        const auto chunk = group.energies.subspan(begin, end - begin);
        return squares ? kernels::spread_squares(chunk) : kernels::spread_abs(chunk);
      };
      const kernels::Spread spread = spread_of_chunks(pool(), group.energies.size(), of);
      if (options_.p == "max") {
        const std::uint32_t bits = std::min(spread.max_abs_bits, kernels::infinity_bits);
        whole = std::max(whole, static_cast<double>(std::bit_cast<float>(bits)));
      } else {
        whole += spread.sum;
      }
    }
  }
  if (!std::isfinite(whole)) return INFINITY;
  if (options_.p == "l2") whole = std::sqrt(whole);
  if (options_.p == "truncate") whole /= s;
  if (options_.p == "uniform") return s / static_cast<double>(atoms);
  return 1 / whole;
}

std::size_t Atomo::select(std::span<const Group> groups, const Streams& streams, std::span<std::uint32_t> indices,
                          std::span<std::size_t> counts, std::span<float> scales) {
  const bool together = options_.scope == "bucket";
  double factor = together ? this->factor(groups) : 0;
  std::size_t total = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (!together) factor = this->factor(groups.subspan(g, 1));
    counts[g] = draw(groups[g], factor, streams, indices.data() + total, scales.data() + total);
    total += counts[g];
  }
  return total;
}

std::size_t Atomo::draw(const Group& group, double factor, const Streams& streams, std::uint32_t* indices,
                        float* scales) const {
  if (std::isinf(factor) || std::isnan(factor)) {
    // If an energy is not finite, only such energies are sent, for the quantiser to report. If `factor` is 1/0, all
    // energies are zero, or s is at least the number of non-zero ones.
    const bool bad = largest_magnitude(pool(), group.energies) >= kernels::infinity_bits;
    const std::size_t count = collect(pool(), group, bad ? kernels::infinity_bits : 1, indices);
    std::fill_n(scales, count, 1.0F);
    return count;
  }
  const ElementStream stream = streams.stream(streams.selection, group.segment);
  const bool uniform = options_.p == "uniform";
  const auto write = [&](std::size_t begin, std::size_t end) {
    const auto energies = group.energies.subspan(begin, end - begin);
    const auto offset = static_cast<std::uint32_t>(begin);
    const std::uint32_t number = group.number + offset, first = group.first + offset;
    return uniform
               ? kernels::draw_uniform(energies, static_cast<float>(std::min(factor, 1.0)), stream, number, first,
                                       indices + begin, scales + begin)
               : kernels::draw_proportional(energies, factor, stream, number, first, indices + begin, scales + begin);
  };
  const auto move = [&](std::size_t from, std::size_t to, std::size_t n) {
    std::copy_n(indices + from, n, indices + to);
    std::copy_n(scales + from, n, scales + to);
  };
  return list_in_order(pool(), group.energies.size(), write, move);
}

// The variance over the square of the norm, for the worst energies of `atoms` atoms.
double Atomo::omega(std::size_t atoms) const {
  const auto n = static_cast<double>(atoms);
  if (options_.p == "l2") return std::sqrt(n) - 1;         // |e|_1 |e|_2 - |e|_2^2
  if (options_.p == "max") return (std::sqrt(n) - 1) / 2;  // |e|_1 |e|_max - |e|_2^2
  const double s = std::min(budget(atoms), n);
  // The least variance is at most the variance of equal probabilities. With truncation it is at most |e|_1^2 / s.
  return options_.p == "truncate" ? n / s : n / s - 1;
}

Contract Atomo::contract(std::span<const std::size_t> atoms) const {
  double worst = 0;
  if (options_.scope == "bucket") {
    const std::size_t all = std::accumulate(atoms.begin(), atoms.end(), std::size_t{0});
    if (all > 0) worst = omega(all);
  } else {
    for (const std::size_t n : atoms) worst = std::max(worst, n > 0 ? omega(n) : 0);
  }
  // A budget that is a number of atoms applies to a whole segment: cut pieces would each get the full budget.
  const bool whole = options_.scope == "segment" && needs_budget(options_.p) && !is_share_;
  return {.kind = Contract::Kind::unbiased,
          .omega = worst,
          .delta = 0,
          .input = Contract::Input::delta,
          .grain = whole ? Contract::Grain::segment : Contract::Grain::element,
          .chance = Contract::Chance::own};
}

}  // namespace sotto
