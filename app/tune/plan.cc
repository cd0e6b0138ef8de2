#include "app/tune/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sotto/core/error.h"
#include "sotto/core/options.h"
#include "sotto/core/random.h"
#include "sotto/core/text.h"

namespace sotto {
namespace {

constexpr std::size_t most_values = 10'000;     // of one dimension
constexpr std::uint64_t most_vain = 1'000'000;  // after so many draws without a new point, none is left

struct Word {
  std::string_view text;
  bool quoted = false;
};

class Splitter {
 public:
  Splitter(std::string where, std::string_view text) : where_(std::move(where)), rest_(text) {}

  std::vector<Word> words() {
    std::vector<Word> found;
    for (bool more = true; more;) {
      found.push_back(word());
      more = !rest_.empty();
      if (more) rest_.remove_prefix(1);  // the comma
    }
    return found;
  }

 private:
  Word word() {
    rest_ = trimmed(rest_);
    if (!rest_.empty() && (rest_.front() == '"' || rest_.front() == '\'')) return in_quotes();
    std::size_t depth = 0, end = 0;
    for (; end < rest_.size(); ++end) {
      const char c = rest_[end];
      if (c == ',' && depth == 0) break;
      if (c == '(') ++depth;
      if (c == ')' && depth-- == 0) fail("a `)` closes nothing");
    }
    if (depth > 0) fail("a `(` is never closed");
    const std::string_view text = trimmed(rest_.substr(0, end));
    rest_.remove_prefix(end);
    if (text.empty()) fail("a value is empty; an empty text is \"\"");
    return {text};
  }

  Word in_quotes() {
    const std::size_t end = rest_.find(rest_.front(), 1);
    if (end == rest_.npos) fail(fmt::format("a {} is never closed", rest_.front()));
    const Word word{rest_.substr(1, end - 1), true};
    rest_ = trimmed(rest_.substr(end + 1));
    if (!rest_.empty() && rest_.front() != ',') fail("expected `,` after a value in quotes");
    return word;
  }

  [[noreturn]] void fail(const std::string& why) const { throw ConfigError(where_ + ": " + why); }

  std::string where_;
  std::string_view rest_;
};

void add_value(const std::string& where, std::string value, std::vector<std::string>& values) {
  if (std::ranges::find(values, value) != values.end()) {
    throw ConfigError(fmt::format("{}: the value `{}` is there twice", where, value));
  }
  if (values.size() == most_values) throw ConfigError(fmt::format("{}: more than {} values", where, most_values));
  values.push_back(std::move(value));
}

// Whether the range stays a range. Ranges of the other kinds are replaced by the list of their values.
bool is_open(const ValueRange& range) {
  return range.kind == ValueRange::Kind::any || range.kind == ValueRange::Kind::whole;
}

std::uint64_t size_of(std::string_view option, const Dimension& dimension) {
  if (!dimension.range) return dimension.values.size();
  const auto size = dimension.range->size();
  if (!size) {
    throw ConfigError(fmt::format(
        "{}: a grid cannot have every number of a range; write how many of them, as "
        "{}={}..{}/5, or draw some with {}",
        named(option, dimension.name), dimension.name, dimension.range->low, dimension.range->high, named("random")));
  }
  return *size;
}

std::string drawn(const ValueRange& range, double uniform) {
  if (range.kind == ValueRange::Kind::whole) {
    const double value = std::floor(range.low * std::pow((range.high + 1) / range.low, uniform));
    return fmt::format("{:.0f}", std::clamp(value, range.low, range.high));
  }
  const double value = range.low * std::pow(range.high / range.low, uniform);
  std::string text = fmt::format("{:.4g}", value);  // few digits, for people
  const double rounded = parse_double(text, text);
  return rounded < range.low || rounded > range.high ? fmt::to_string(value) : text;
}

}  // namespace

Dimension read_dimension(std::string_view option, std::string_view text) {
  const std::string where = named(option, text);
  const std::size_t equals = text.find('=');
  Dimension dimension{std::string(trimmed(text.substr(0, equals))), {}, {}};
  if (equals == text.npos || dimension.name.empty()) {
    throw ConfigError(where + ": expected NAME=VALUES, as lr=2^-7..2^-1 or codec=none,int8");
  }
  const std::vector<Word> words = Splitter(where, text.substr(equals + 1)).words();
  for (const Word& word : words) {
    if (word.quoted) {
      add_value(where, std::string(word.text), dimension.values);
      continue;
    }
    if (const auto range = ValueRange::of_text(where, word.text)) {
      if (!is_open(*range)) {
        for (std::string& value : range->values()) add_value(where, std::move(value), dimension.values);
        continue;
      }
      if (words.size() > 1) throw ConfigError(fmt::format("{}: {} must be the only value", where, word.text));
      dimension.range = *range;
      return dimension;
    }
    const auto power = power_of_text(word.text);
    add_value(where, power ? fmt::to_string(*power) : std::string(word.text), dimension.values);
  }
  return dimension;
}

std::vector<Dimension> read_space(std::string_view option, std::span<const std::string> texts) {
  std::vector<Dimension> space;
  for (const std::string& text : texts) {
    Dimension dimension = read_dimension(option, text);
    if (std::ranges::find(space, dimension.name, &Dimension::name) != space.end()) {
      throw ConfigError(
          fmt::format("{}: {} is given twice; list its values once", named(option, text), dimension.name));
    }
    space.push_back(std::move(dimension));
  }
  return space;
}

std::vector<Point> grid_of(std::string_view option, std::span<const Dimension> space, std::size_t most) {
  std::uint64_t count = 1;
  for (const Dimension& dimension : space) {
    const std::uint64_t size = size_of(option, dimension);
    if (size > most / count) {
      throw ConfigError(fmt::format("{}: it has more than {} trials; take fewer values, or draw some with {}",
                                    named(option), most, named("random")));
    }
    count *= size;
  }
  std::vector<Point> points{{}};
  for (const Dimension& dimension : space) {
    const std::vector<std::string> values = dimension.range ? dimension.range->values() : dimension.values;
    std::vector<Point> longer;
    for (const Point& point : points) {
      for (const std::string& value : values) {
        longer.push_back(point);
        longer.back().push_back(value);
      }
    }
    points = std::move(longer);
  }
  return points;
}

std::vector<Point> draw_points(std::string_view option, std::span<const Dimension> space, std::size_t count,
                               std::uint64_t seed) {
  for (const Dimension& dimension : space) {
    if (dimension.range && dimension.range->low <= 0) {
      throw ConfigError(
          fmt::format("{}: numbers are drawn with uniform logarithms, so a range must begin above 0; "
                      "list values instead, as {}=0,0.5,0.9",
                      named(option, dimension.name), dimension.name));
    }
  }
  std::vector<Point> points;
  std::set<Point> known;
  for (std::uint64_t draw = 0, vain = 0; points.size() < count; ++draw) {
    Philox random(seed, Purpose::select, draw);  // no codec draws in this process
    Point point;
    for (const Dimension& dimension : space) {
      point.push_back(dimension.range
                          ? drawn(*dimension.range, random.uniform())
                          : dimension.values[random.below(static_cast<std::uint32_t>(dimension.values.size()))]);
    }
    if (known.insert(point).second) {
      points.push_back(std::move(point));
      vain = 0;
    } else if (++vain == most_vain) {
      throw ConfigError(fmt::format("{}: there are only {} different trials; draw fewer, or leave {} out to have all",
                                    named("random", std::to_string(count)), points.size(), named("random")));
    }
  }
  return points;
}

std::string text_of(std::span<const Dimension> space, const Point& point) {
  std::string text;
  for (std::size_t i = 0; i < space.size(); ++i) {
    text += fmt::format("{}{}={}", i == 0 ? "" : ", ", space[i].name, point[i]);
  }
  return text;
}

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
