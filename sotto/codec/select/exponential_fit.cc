#include "sotto/codec/select/exponential_fit.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "sotto/codec/select/candidates.h"
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

}  // namespace

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

}  // namespace sotto
