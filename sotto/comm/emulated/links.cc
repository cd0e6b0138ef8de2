#include "sotto/comm/emulated/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "sotto/core/error.h"
#include "sotto/core/text.h"

namespace sotto {
namespace {

struct Unit {
  std::string_view name;
  double factor;
  double LinkShape::*field;
};
constexpr std::array units{
    Unit{"bit", 1, &LinkShape::bits_per_second},
    Unit{"kbit", 1e3, &LinkShape::bits_per_second},
    Unit{"mbit", 1e6, &LinkShape::bits_per_second},
    Unit{"gbit", 1e9, &LinkShape::bits_per_second},
    Unit{"us", 1e-6, &LinkShape::latency},
    Unit{"ms", 1e-3, &LinkShape::latency},
    Unit{"s", 1, &LinkShape::latency},
};

struct Quantity {
  double value = 0;
  const Unit* unit = nullptr;
};

// Throws the error without its place.
Quantity parse_quantity(std::string_view text, bool zero) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (status != std::errc() || !((zero ? value >= 0 : value > 0) && value < 1e15))
    throw ConfigError(fmt::format("`{}` does not begin with a number above 0", text));
  const std::string_view name = trimmed(text.substr(static_cast<std::size_t>(end - text.data())));
  const auto* const unit = std::ranges::find(units, name, &Unit::name);
  if (unit == units.end()) {
    throw ConfigError(fmt::format("{} (bit, kbit, mbit, gbit; us, ms, s)", name.empty()
                                                                               ? fmt::format("`{}` has no unit", text)
                                                                               : fmt::format("`{}` is no unit", name)));
  }
  return {value * unit->factor, unit};
}

double parse_one(std::string_view option, std::string_view text, bool zero, double LinkShape::*field,
                 std::string_view wanted) {
  try {
    const Quantity quantity = parse_quantity(trimmed(text), zero);
    if (quantity.unit->field == field) return quantity.value;
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}; write {}", option, error.what(), wanted));
  }
  throw ConfigError(fmt::format("{}: `{}` is none; write {}", option, text, wanted));
}

}  // namespace

Links::Rank Links::rank(int rank) const {
  const auto found = ranks.find(rank);
  return found != ranks.end() ? found->second : Rank{all.bits_per_second, all.bits_per_second};
}

LinkShape Links::pair(int from, int to) const {
  const auto found = pairs.find({from, to});
  return found != pairs.end() ? found->second : LinkShape{0, all.latency, all.jitter};
}

double parse_rate(std::string_view option, std::string_view text) {
  return parse_one(option, text, false, &LinkShape::bits_per_second, "a rate, as in \"100mbit\"");
}

double parse_duration(std::string_view option, std::string_view text, bool zero) {
  return parse_one(option, text, zero, &LinkShape::latency, "a time, as in \"5ms\"");
}

LinkShape parse_link(std::string_view option, std::string_view text) {
  const auto fail = [&](const std::string& what) {
    throw ConfigError(
        fmt::format("{}: {}; write a rate, a latency or both, as in 100mbit or 1gbit,5ms", named(option, text), what));
  };
  LinkShape shape;
  std::string_view rest = text;
  for (bool more = true; more;) {
    const auto comma = rest.find(',');
    more = comma != std::string_view::npos;
    const std::string_view part = trimmed(rest.substr(0, comma));
    if (more) rest = rest.substr(comma + 1);
    Quantity quantity;
    try {
      quantity = parse_quantity(part, false);
    } catch (const ConfigError& error) {
      fail(error.what());
    }
    double& field = shape.*quantity.unit->field;
    if (field != 0)
      fail(fmt::format("`{}` is a second {}", part, quantity.unit->field == &LinkShape::latency ? "latency" : "rate"));
    field = quantity.value;
  }
  return shape;
}

}  // namespace sotto
