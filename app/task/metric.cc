#include "app/task/metric.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sotto {

std::string value_text(double value) {
  const double size = std::abs(value);
  return size != 0 && (size < 1e-3 || size >= 1e7) ? fmt::format("{:.4g}", value) : fmt::format("{:.4f}", value);
}

std::string Metric::text(double value) const {
  return is_share ? fmt::format("{:.2f}", 100 * value) : value_text(value);
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

std::string Target::text() const { return fmt::format("{}={}", metric.name, format_double(value)); }

Target read_target(std::string_view option, std::string_view text, std::span<const Metric> kinds) {
  const std::size_t equals = text.find('=');
  const Metric& metric = metric_table(kinds).require(option, text.substr(0, equals));
  if (equals == std::string_view::npos) {
    throw ConfigError(fmt::format("{}: say at which value, as {}={}", named(option, text), metric.name,
                                  metric.is_share ? "0.97" : "0.1"));
  }
  const Bounds bounds = metric.is_share ? Bounds{0, 1} : Bounds{};
  return {metric,
          parse_double(fmt::format("{}: {}", named(option, text), metric.name), text.substr(equals + 1), bounds)};
}

double squares_around_mean(double count, double sum, double squares) {
  const double around = squares - sum * sum / count;
  return around > 1e-12 * squares ? around : 0;  // the rest is rounding
}

double r2_of(double errors, double count, double sum, double squares) {
  const double spread = squares_around_mean(count, sum, squares);
  if (spread == 0) return errors == 0 ? 1 : 0;
  return 1 - errors / spread;
}

}  // namespace sotto
