#include "app/tune/halving.h"

#include <algorithm>
#include <cmath>

namespace sotto {

std::vector<Round> halving_rounds(std::size_t trials, std::uint64_t steps, std::uint64_t eta) {
  std::vector<Round> rounds{{trials, steps}};
  while (trials / eta >= 2) {
    trials /= eta;
    steps *= eta;
    rounds.push_back({trials, steps});
  }
  return rounds;
}

std::vector<std::size_t> best_of(std::span<const double> scores, std::size_t count, bool rises) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (std::isfinite(scores[i])) order.push_back(i);
  }
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return rises ? scores[a] > scores[b] : scores[a] < scores[b]; });
  order.resize(std::min(order.size(), count));
  return order;
}

}  // namespace sotto
