#include "sotto/comm/emulated/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "sotto/core/random.h"
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

Clock::duration seconds(double value) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(value));
}

Clock::duration time_of(std::size_t bytes, double bits_per_second) {
  return bits_per_second > 0 ? seconds(8.0 * static_cast<double>(bytes) / bits_per_second) : Clock::duration::zero();
}

// How many spans of time are kept apart. Older ones may be joined, since nearly all later messages begin after them.
constexpr std::size_t remembered = 64;

// The rate of two links in series; 0: unlimited.
double slower(double one, double other) { return one > 0 && other > 0 ? std::min(one, other) : std::max(one, other); }

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

Link::Link(const Links& links, int rank, int size)
    : seed_(links.seed),
      rank_(rank),
      egress_(links.rank(rank).egress),
      ingress_(links.rank(rank).ingress),
      outgoing_(static_cast<std::size_t>(size)),
      from_(outgoing_.size()) {
  for (int peer = 0; peer < size; ++peer) {
    const auto i = static_cast<std::size_t>(peer);
    outgoing_[i].shape = links.pair(rank, peer);
    from_[i] = slower(links.rank(peer).egress, links.pair(peer, rank).bits_per_second);
  }
}

Clock::time_point Link::send(int to, std::size_t bytes, Clock::time_point now) {
  const Lock lock(mutex_);
  Outgoing& link = outgoing_[static_cast<std::size_t>(to)];
  const auto begin = std::max(now, sent_);
  sent_ = begin + time_of(bytes, egress_);
  link.passed = std::max(sent_, std::max(begin, link.passed) + time_of(bytes, link.shape.bits_per_second));
  const ElementStream draws = element_stream(seed_, Purpose::jitter, static_cast<std::uint32_t>(rank_),
                                             link.messages >> 32, static_cast<std::uint32_t>(to));
  const double late = link.shape.jitter * draws.uniform(static_cast<std::uint32_t>(link.messages++));
  link.arrived = std::max(link.arrived, link.passed + seconds(link.shape.latency + late));
  return link.arrived;
}

Clock::time_point Link::receive(int from, std::size_t bytes, Clock::time_point arrived) {
  const Lock lock(mutex_);
  const auto begin = arrived - time_of(bytes, from_[static_cast<std::size_t>(from)]);
  return std::max(arrived, take_in(begin, time_of(bytes, ingress_)));
}

// Reserves the first free time from `begin` on, `needed` in all, and returns when it ends. A short message that came
// during a long one thus delays the long one only by its own time.
Clock::time_point Link::take_in(Clock::time_point begin, Clock::duration needed) {
  auto next = std::ranges::find_if(busy_, [&](const Span& span) { return span.end >= begin; });
  const auto first = next;
  Span taken{begin, begin};
  for (; next != busy_.end() && (next->begin <= taken.end || next->begin - taken.end < needed); ++next) {
    needed -= std::max(Clock::duration::zero(), next->begin - taken.end);
    taken = {std::min(taken.begin, next->begin), next->end};
  }
  taken.end += needed;
  busy_.insert(busy_.erase(first, next), taken);
  if (busy_.size() > remembered) {  // joins the two oldest
    busy_[1].begin = busy_[0].begin;
    busy_.erase(busy_.begin());
  }
  return taken.end;
}

}  // namespace sotto
