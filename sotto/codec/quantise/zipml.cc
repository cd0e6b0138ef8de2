#include "sotto/codec/quantise/zipml.h"

#include <algorithm>
#include <limits>

namespace sotto {

void OptimalLevels::reserve(std::size_t candidates, std::size_t levels) {
  candidates_.room(candidates + 2);
  variances_.room(2 * (candidates + 2));
  choices_.room((candidates + 2) * levels);
}

// Lists 0, up to `most` shares between 0 and 1, and 1; returns how many these are.
std::size_t OptimalLevels::list(const LevelSample& sample, std::size_t most) {
  const auto candidates = candidates_.room(most + 2);
  const auto shares = sample.shares();
  candidates[0] = {0, sample.up_to(0)};
  std::size_t count = 1;
  for (std::size_t j = 0; j < std::min(most, shares.size()); ++j) {
    const float share = shares[j * shares.size() / std::min(most, shares.size())];
    if (share > candidates[count - 1].level && share < 1) candidates[count++] = {share, sample.up_to(share)};
  }
  candidates[count++] = {1, shares.size()};
  return count;
}

// For each j in `wanted`: least[j] = the least variance of the shares up to candidate j, if j is a level and the level
// before it is a candidate i in `before`. less[i] is the least variance up to i, with one level fewer.
void OptimalLevels::fill(const LevelSample& sample, Range wanted, Range before, std::span<const double> less,
                         std::span<double> least, std::span<std::uint16_t> choices) const {
  if (wanted.size() == 0) return;
  const Candidate* const candidates = candidates_.data();
  const std::size_t j = wanted.begin + wanted.size() / 2;
  least[j] = std::numeric_limits<double>::infinity();
  for (std::size_t i = before.begin; i < std::min(before.end, j); ++i) {
    const double variance =
        less[i] + sample.variance(candidates[i].shares, candidates[j].shares, candidates[i].level, candidates[j].level);
    if (variance < least[j]) {
      least[j] = variance;
      choices[j] = static_cast<std::uint16_t>(i);
    }
  }
  fill(sample, {wanted.begin, j}, {before.begin, choices[j] + std::size_t{1}}, less, least, choices);
  fill(sample, {j + 1, wanted.end}, {choices[j], before.end}, less, least, choices);
}

void OptimalLevels::find(const LevelSample& sample, std::size_t most, std::span<float> levels) {
  const std::size_t count = list(sample, most);
  const Candidate* const candidates = candidates_.data();
  const std::size_t steps = levels.size() - 1;  // from level to level
  if (count <= levels.size()) {
    for (std::size_t j = 1; j < steps; ++j) levels[j] = candidates[std::min(j, count - 1)].level;
    return;
  }
  const auto rows = variances_.room(2 * count);
  const auto choices = choices_.room(count * levels.size());
  auto less = rows.first(count);
  auto least = rows.subspan(count);
  for (std::size_t j = 0; j < count; ++j) least[j] = sample.variance(0, candidates[j].shares, 0, candidates[j].level);
  for (std::size_t step = 2; step <= steps; ++step) {
    std::swap(less, least);
    fill(sample, {step, count}, {step - 1, count}, less, least, choices.subspan(step * count, count));
  }
  std::size_t j = count - 1;
  for (std::size_t number = steps; number > 1; --number) {
    j = choices[number * count + j];
    levels[number - 1] = candidates[j].level;
  }
}

void ZipMl::reserve(std::optional<std::uint64_t> place, std::size_t values) {
  FittedLevels::reserve(place, values);
  optimal_.reserve(candidates_, count());
}

void ZipMl::fit(const LevelSample& sample, std::span<float> levels) { optimal_.find(sample, candidates_, levels); }

}  // namespace sotto
