#include "sotto/codec/select/random_share.h"

#include <algorithm>

#include "sotto/codec/select/candidates.h"
#include "sotto/codec/shared_work.h"

namespace sotto {
namespace {

// floor(below * random / 2^32)
std::uint64_t scaled(std::uint64_t below, std::uint32_t random) { return (below * random) >> 32; }

}  // namespace

std::size_t take_random_share(Workers& workers, double ratio, std::size_t n, const ElementStream& stream,
                              std::uint32_t number, std::uint32_t first, std::uint32_t* out) {
  const std::size_t k = share_of(ratio, n);
  const std::uint64_t place = scaled(n, stream.at(number));
  // On the circle laid out from `place` on: below 2n, ascending.
  const auto taken = [&](std::size_t s) {
    const std::uint64_t begin = s * n / k;
    const std::uint64_t end = (s + 1) * n / k;
    return place + begin + scaled(end - begin, stream.quick(number + static_cast<std::uint32_t>(s)));
  };
  std::size_t turn = 0;  // the first stretch of which one behind the seam is taken
  for (std::size_t above = k; turn < above;) {
    const std::size_t middle = turn + (above - turn) / 2;
    if (taken(middle) < n) {
      turn = middle + 1;
    } else {
      above = middle;
    }
  }
  workers.run_stretches(k, scattered_grain(workers), [&](std::size_t begin, std::size_t end) {
    for (std::size_t s = begin; s < end; ++s) {
      const std::uint64_t at = taken(s);
      out[s < turn ? s + k - turn : s - turn] = first + static_cast<std::uint32_t>(at < n ? at : at - n);
    }
  });
  return k;
}

Contract contract_of_random_share(double ratio, bool unbiased, std::span<const std::size_t> atoms) {
  double share = 1;  // the smallest one
  for (const std::size_t n : atoms) {
    if (n > 0) share = std::min(share, static_cast<double>(share_of(ratio, n)) / static_cast<double>(n));
  }
  if (unbiased) {
    return {.kind = Contract::Kind::unbiased, .omega = 1 / share - 1, .delta = 0, .input = Contract::Input::delta};
  }
  return {.kind = Contract::Kind::contraction, .delta = share, .input = Contract::Input::delta};
}

}  // namespace sotto
