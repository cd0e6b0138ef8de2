#include "sotto/task/metric.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "sotto/core/error.h"
#include "sotto/core/options.h"
#include "sotto/core/table.h"

namespace sotto {

std::string Metric::text(double value) const {
  return is_share ? fmt::format("{:.2f}", 100 * value) : fmt::format("{:.4f}", value);
}

std::string Metric::with_unit(double value) const { return text(value) + (is_share ? " %" : ""); }

double Metrics::value(std::string_view name) const {
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i].name == name) return values.at(i);
  }
  throw std::logic_error(fmt::format("this task has no metric {}", name));
}

bool Metrics::finite() const {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

std::string Metrics::text() const {
  std::string line;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    line += fmt::format("{}{} {}", i == 0 ? "" : "  ", kinds[i].label, kinds[i].text(values.at(i)));
  }
  return line;
}

const Metric& require_metric(std::string_view where, std::string_view name, std::span<const Metric> kinds) {
  if (const Metric* metric = find_entry(kinds, name)) return *metric;
  throw ConfigError(fmt::format("{}: {}", named(where), unknown_name("metric", name, names_of(kinds))));
}

std::string Target::text() const { return fmt::format("{}={}", metric.name, format_double(value)); }

std::optional<Target> read_target(std::string_view where, std::string_view text, std::span<const Metric> kinds) {
  if (text.empty()) return std::nullopt;
  const std::size_t equals = text.find('=');
  const Metric& metric = require_metric(where, text.substr(0, equals), kinds);
  if (equals == std::string_view::npos) {
    throw ConfigError(
        fmt::format("{}: say at which value, as {}={}", named(where, text), metric.name, metric.is_share ? "0.97" : "0.1"));
  }
  const Bounds bounds = metric.is_share ? Bounds{0, 1} : Bounds{};
  return Target{metric,
                parse_double(fmt::format("{}: {}", named(where, text), metric.name), text.substr(equals + 1), bounds)};
}

}  // namespace sotto
