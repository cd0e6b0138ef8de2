#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sotto {

// A round of a search: `trials` trials, each until it has made `steps` steps in all.
struct Round {
  std::size_t trials = 0;
  std::uint64_t steps = 0;
  bool operator==(const Round&) const = default;
};

// Successive halving (Jamieson, Talwalkar: Non-stochastic best arm identification and hyperparameter optimization,
// AISTATS 2016): the best 1/eta of a round's trials, rounded down, continue until they have made eta times the steps;
// all rounds cost about the same. The last round is the last one with at least two trials.
std::vector<Round> halving_rounds(std::size_t trials, std::uint64_t steps, std::uint64_t eta);

// The indices of the `count` best scores, the best one first; of equal ones the earlier is better. `rises`: larger ones
// are better. A score that is not finite is never among them, so there may be fewer.
std::vector<std::size_t> best_of(std::span<const double> scores, std::size_t count, bool rises);

}  // namespace sotto
