#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/tune/value_range.h"

namespace sotto {

// An option of a training, and the values that it may have: a list, or one range.
struct Dimension {
  std::string name;
  std::vector<std::string> values;
  std::optional<ValueRange> range;  // if set, there are no values
};

// One value for each dimension, in their order.
using Point = std::vector<std::string>;

// Reads "lr=2^-7..2^-1" or "codec=none, ef | topk(0.01), 'a, b'". Values end at a comma outside parentheses and quotes;
// quotes around a value are left out. Ranges of powers and of equal ratios, and single powers, become values. A range
// of whole or any numbers must be the only value. ConfigError, which names `option` and the text.
Dimension read_dimension(std::string_view option, std::string_view text);
// Reads several dimensions. ConfigError, too, if two have the same name.
std::vector<Dimension> read_space(std::string_view option, std::span<const std::string> texts);

// Every combination; the last dimension changes first. ConfigError if there are more than `most`, or a range cannot be
// listed.
std::vector<Point> grid_of(std::string_view option, std::span<const Dimension> space, std::size_t most);

// Draws different points. They depend on the seed alone, and a longer draw begins with the points of a shorter one. The
// elements of a list are equally likely; the logarithm of a number from a range is uniform. ConfigError if there are
// fewer points than `count`, or a range does not begin above 0.
std::vector<Point> draw_points(std::string_view option, std::span<const Dimension> space, std::size_t count,
                               std::uint64_t seed);

// "lr=0.5, codec=none"
std::string text_of(std::span<const Dimension> space, const Point& point);

// A round of a search: `trials` trials, each of which trains until it has made `steps` steps in all.
struct Round {
  std::size_t trials = 0;
  std::uint64_t steps = 0;
  bool operator==(const Round&) const = default;
};

// Successive halving (Jamieson, Talwalkar: Non-stochastic best arm identification and hyperparameter optimization,
// AISTATS 2016): the best 1/eta of a round's trials, rounded down, continue until they have made eta times as many
// steps, so all rounds cost about the same. The last round has at least two trials.
std::vector<Round> halving_rounds(std::size_t trials, std::uint64_t steps, std::uint64_t eta);

// The indices of the `count` best scores, the best one first; among equal scores the earlier is better. `rises`: larger
// ones are better. A score that is not finite is never among them, so there may be fewer.
std::vector<std::size_t> best_of(std::span<const double> scores, std::size_t count, bool rises);

}  // namespace sotto
