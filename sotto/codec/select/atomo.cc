#include "sotto/codec/select/atomo.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "sotto/codec/select/candidates.h"
#include "sotto/codec/shared_work.h"
#include "sotto/core/error.h"
#include "sotto/kernels/draw.h"
#include "sotto/kernels/reduce.h"

namespace sotto {
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
