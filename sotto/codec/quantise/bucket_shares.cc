#include "sotto/codec/quantise/bucket_shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sotto {

double histogram_entropy(std::span<const float> ascending, std::span<std::uint32_t> bins) {
  if (ascending.empty() || ascending.front() == ascending.back()) return 0;
  std::ranges::fill(bins, 0U);
  const auto low = static_cast<double>(ascending.front());
  const double width = static_cast<double>(ascending.back()) - low;
  const auto count = static_cast<double>(bins.size());
  for (const float number : ascending) {
    const double place = (static_cast<double>(number) - low) / width * count;
    ++bins[std::min(static_cast<std::size_t>(place), bins.size() - 1)];
  }
  double entropy = 0;
  for (const std::uint32_t bin : bins) {
    const double p = static_cast<double>(bin) / static_cast<double>(ascending.size());
    if (bin > 0) entropy -= p * std::log2(p);
  }
  return entropy;
}

void share_out(std::size_t total, std::size_t least, std::span<const double> weights, std::span<std::uint32_t> sizes) {
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  const std::size_t spare = total - least * sizes.size();
  double sum = 0;
  std::size_t given = 0;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    sum += weights[k];
    const double share = all > 0 ? sum / all : static_cast<double>(k + 1) / static_cast<double>(sizes.size());
    const bool last = k + 1 == sizes.size();
    const std::size_t until =
        last ? spare : std::min(static_cast<std::size_t>(share * static_cast<double>(spare)), spare);
    sizes[k] = static_cast<std::uint32_t>(least + until - given);
    given = until;
  }
}

}  // namespace sotto
