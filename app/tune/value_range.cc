#include "app/tune/value_range.h"

#include <fmt/format.h>

#include <cmath>

#include "sotto/core/error.h"
#include "sotto/core/text.h"

namespace sotto {
namespace {

constexpr double most_exponent = 1000;
constexpr double most_whole = 1e15;
constexpr std::int64_t most_ratios = 1000;

struct Number {
  double value = 0;
  bool whole = false;
  bool power = false;
  double base = 0, exponent = 0;  // base and exponent of a power
};

// The quotient, not pow() of a negative exponent, is exactly the double nearest to 10^-4.
double power_of(double base, double exponent) {
  return exponent < 0 ? 1 / std::pow(base, -exponent) : std::pow(base, exponent);
}

std::optional<Number> read_number(std::string_view text) {
  const std::size_t hat = text.find('^');
  const auto value = parsed<double>(text.substr(0, hat));
  if (!value || !std::isfinite(*value)) return std::nullopt;
  if (hat == text.npos) {
    const bool whole = parsed<std::int64_t>(text).has_value() && std::abs(*value) <= most_whole;
    return Number{.value = *value, .whole = whole};
  }
  const auto exponent = parsed<std::int64_t>(text.substr(hat + 1));
  if (!exponent || *value <= 0) return std::nullopt;
  const auto e = static_cast<double>(*exponent);
  return Number{.value = power_of(*value, e), .power = true, .base = *value, .exponent = e};
}

}  // namespace

std::optional<double> power_of_text(std::string_view text) {
  const auto number = read_number(text);
  const bool usable = number && number->power && std::isfinite(number->value) && number->value > 0;
  return usable ? std::optional(number->value) : std::nullopt;
}

std::optional<ValueRange> ValueRange::of_text(std::string_view where, std::string_view text) {
  const std::size_t dots = text.find("..");
  if (dots == text.npos) return std::nullopt;
  const std::size_t slash = text.find('/', dots);
  const auto first = read_number(text.substr(0, dots));
  const auto last = read_number(text.substr(dots + 2, slash == text.npos ? slash : slash - dots - 2));
  if (!first || !last) return std::nullopt;
  const auto fail = [&](const std::string& why) { throw ConfigError(fmt::format("{}: {}: {}", where, text, why)); };
  if (first->power != last->power) fail("one end is a power and the other is none; write both alike");
  if (first->value > last->value) fail("the first end is the larger one; write the smaller one first");

  ValueRange range{.low = first->value, .high = last->value};
  if (slash != text.npos) {
    if (first->value <= 0) fail("equal ratios want ends above 0");
    const auto count = parsed<std::int64_t>(text.substr(slash + 1));
    if (!count || *count < 2 || *count > most_ratios) {
      fail(fmt::format("the number of values after `/` must be in [2, {}]", most_ratios));
    }
    range.kind = Kind::ratios;
    range.count = *count;
  } else if (first->power) {
    if (first->base != last->base) fail("the ends are powers of different numbers");
    if (first->base == 1) fail("all powers of 1 are 1");
    if (std::abs(first->exponent) > most_exponent || std::abs(last->exponent) > most_exponent) {
      fail(fmt::format("exponents must be in [-{0}, {0}]", most_exponent));
    }
    for (const Number* end : {&*first, &*last}) {
      if (end->value == 0 || !std::isfinite(end->value)) fail("a power is too large, or too near 0");
    }
    range = {.kind = Kind::powers, .low = first->exponent, .high = last->exponent, .base = first->base};
  } else if (first->whole && last->whole) {
    range.kind = Kind::whole;
  }
  return range;
}

std::optional<std::uint64_t> ValueRange::size() const {
  if (kind == Kind::any) return std::nullopt;
  if (kind == Kind::ratios) return static_cast<std::uint64_t>(count);
  return static_cast<std::uint64_t>(std::abs(high - low)) + 1;
}

std::vector<std::string> ValueRange::values() const {
  std::vector<std::string> texts;
  const auto steps = static_cast<std::int64_t>(size().value_or(0));
  const double towards = high < low ? -1 : 1;  // for a base below 1 the exponents fall
  for (std::int64_t i = 0; i < steps; ++i) {
    const auto at = static_cast<double>(i);
    switch (kind) {
      case Kind::powers: texts.push_back(fmt::to_string(power_of(base, low + towards * at))); break;
      case Kind::whole: texts.push_back(fmt::format("{:.0f}", low + at)); break;
      case Kind::ratios:
        texts.push_back(fmt::format("{:.6g}", low * std::pow(high / low, at / static_cast<double>(steps - 1))));
        break;
      case Kind::any: break;
    }
  }
  return texts;
}

}  // namespace sotto
