#include "sotto/codec/select/randomk.h"

#include <numeric>

#include "sotto/codec/select/candidates.h"
#include "sotto/codec/shared_work.h"

namespace sotto {
namespace {

// floor(below * random / 2^32)
std::uint64_t scaled(std::uint64_t below, std::uint32_t random) { return (below * random) >> 32; }

}  // namespace

std::size_t take_random_share(ThreadPool& pool, double ratio, std::size_t n, const ElementStream& stream,
                              std::uint32_t number, std::uint32_t first, std::uint32_t* out) {
  const std::size_t k = share_of(ratio, n);
  const std::uint64_t place = scaled(n, stream.at(number));
  // The number drawn from stretch s. Where the circle wraps around, n is added, so the numbers ascend with s and stay
  // below 2n.
  const auto taken = [&](std::size_t s) {
    const std::uint64_t begin = s * n / k;
    const std::uint64_t end = (s + 1) * n / k;
    return place + begin + scaled(end - begin, stream.quick(number + static_cast<std::uint32_t>(s)));
  };
  std::size_t turn = 0;  // the first stretch whose number wraps around
  for (std::size_t above = k; turn < above;) {
    const std::size_t middle = turn + (above - turn) / 2;
    if (taken(middle) < n) {
      turn = middle + 1;
    } else {
      above = middle;
    }
  }
  pool.run_stretches(k, scattered_grain(pool), [&](std::size_t begin, std::size_t end) {
    for (std::size_t s = begin; s < end; ++s) {
      const std::uint64_t at = taken(s);
      out[s < turn ? s + k - turn : s - turn] = first + static_cast<std::uint32_t>(at < n ? at : at - n);
    }
  });
  return k;
}

std::size_t RandomShare::limits(std::span<const std::size_t> atoms, std::span<std::size_t> each) const {
  const auto share = [this](std::size_t n) { return share_of(ratio, n); };
  std::ranges::transform(atoms, each.begin(), [this](std::size_t n) { return blocks(n); });
  if (pools) {
    const std::size_t k = share(std::accumulate(each.begin(), each.end(), std::size_t{0}));
    std::ranges::transform(each, each.begin(), [k](std::size_t n) { return std::min(n, k); });
    return k;
  }
  std::ranges::transform(each, each.begin(), share);
  return std::accumulate(each.begin(), each.end(), std::size_t{0});
}

std::size_t RandomShare::select(ThreadPool& pool, std::span<const Group> groups, const Streams& streams,
                                std::span<std::uint32_t> indices, std::span<std::size_t> counts,
                                std::span<float> scales) const {
  const std::size_t together = pools ? groups.size() : 1;
  std::size_t total = 0;
  for (std::size_t g = 0; g < groups.size(); g += together) {
    const auto some = groups.subspan(g, together);
    std::size_t n = 0;
    for (const Group& group : some) n += blocks(group.atoms);
    // Draws as if the groups were one, with the random numbers of the first group.
    const ElementStream stream = streams.stream(streams.selection, some[0].segment);
    const std::size_t k = take_random_share(pool, ratio, n, stream, some[0].number, 0, indices.data() + total);
    if (unbiased && k > 0) std::fill_n(&scales[total], k, static_cast<float>(n) / static_cast<float>(k));
    auto next = indices.begin() + static_cast<std::ptrdiff_t>(total);
    const auto end = next + static_cast<std::ptrdiff_t>(k);
    std::size_t before = 0;
    for (std::size_t i = 0; i < some.size(); ++i) {
      const auto begin = next;
      const auto offset = some[i].first - static_cast<std::uint32_t>(before);
      before += blocks(some[i].atoms);
      next = std::lower_bound(begin, end, before);
      pool.run_stretches(static_cast<std::size_t>(next - begin), scattered_grain(pool),
                         [&](std::size_t from, std::size_t to) {
                           for (std::size_t j = from; j < to; ++j) begin[static_cast<std::ptrdiff_t>(j)] += offset;
                         });
      counts[g + i] = static_cast<std::size_t>(next - begin);
    }
    total += k;
  }
  return total;
}

Contract RandomShare::contract(std::span<const std::size_t> atoms) const {
  double share = 1;  // the smallest share of a group
  const auto of = [&](std::size_t n) {
    if (n > 0) share = std::min(share, static_cast<double>(share_of(ratio, n)) / static_cast<double>(n));
  };
  std::size_t all = 0;
  for (const std::size_t n : atoms) {
    all += blocks(n);
    if (!pools) of(blocks(n));
  }
  if (pools) of(all);
  if (unbiased) {
    return {.kind = Contract::Kind::unbiased, .omega = 1 / share - 1, .delta = 0, .input = Contract::Input::delta};
  }
  return {.kind = Contract::Kind::contraction, .delta = share, .input = Contract::Input::delta};
}

}  // namespace sotto
