#include "app/report/spread.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace sotto {

std::string Spread::text(const std::function<std::string(double)>& one) const {
  const std::string around = one(deviation);
  return around == one(0) ? one(mean) : fmt::format("{} ± {}", one(mean), around);
}

Spread spread_of(std::span<const double> values) {
  Spread spread{.count = values.size()};
  const auto count = static_cast<double>(values.size());
  spread.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  if (values.size() < 2 || !std::isfinite(spread.mean)) return spread;
  double squares = 0;
  for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
  spread.deviation = std::sqrt(squares / (count - 1));
  return spread;
}

std::vector<bool> near_best(std::span<const Spread> figures, bool rises) {
  double usual = 0;  // deviation of a figure of one run
  std::optional<Spread> best;
  for (const Spread& figure : figures) {
    usual = std::max(usual, figure.deviation);
    if (!std::isfinite(figure.mean)) continue;
    if (!best || (rises ? figure.mean > best->mean : figure.mean < best->mean)) best = figure;
  }
  const auto deviation = [&](const Spread& of) { return of.count > 1 ? of.deviation : usual; };
  std::vector<bool> near;
  for (const Spread& figure : figures) {
    near.push_back(best && std::isfinite(figure.mean) &&
                   std::abs(figure.mean - best->mean) <= std::hypot(deviation(figure), deviation(*best)));
  }
  return near;
}

}  // namespace sotto
