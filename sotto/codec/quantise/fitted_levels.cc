#include "sotto/codec/quantise/fitted_levels.h"

#include "sotto/kernels/level_table.h"

namespace sotto {

void FittedLevels::reserve(std::optional<std::uint64_t> /*place*/, std::size_t values) {
  sample_.reserve(std::min(values, sample_size_));
}

bool FittedLevels::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  const auto data = values.data;
  const auto norms = side.subspan(head());
  if (!write_norms(pool(), data, blocks_.block, norms)) return false;
  std::array<float, kernels::most_shares + 1> room;
  const auto levels = std::span(room).first(count());
  levels.front() = 0;
  levels.back() = 1;
  room[count()] = 2;  // the gap above the last level
  if (head() > 0) {
    sample_.take(data, blocks_.norms(norms, 0), std::min(data.size(), sample_size_), values.draws.stream);
    fit(sample_, levels);
    std::memcpy(side.data(), &room[1], head());
  }
  pool().run_stretches(data.size(), PackedSymbols::task(pool()), [&](std::size_t begin, std::size_t end) {
    PackedSymbols{width()}.pack(begin, end, packed, [&](std::size_t from, std::span<std::uint16_t> out) {
      kernels::random_shares(data.subspan(from, out.size()), blocks_.norms(norms, from),
                             std::span(room).first(count() + 1), values.draws.part(from, out.size()), out);
    });
  });
  return true;
}

void FittedLevels::check(const Quantised& in, std::size_t values) const {
  check_norms(in.side.subspan(head()), name_);
  float last = 0;
  for (std::size_t j = 0; j < count() - 2; ++j) {
    const auto level = kernels::load<float>(in.side.data(), j);
    if (std::signbit(level) || !(level >= last && level <= 1)) {
      throw WireError(std::string(name_) + ": levels that do not ascend from 0 to 1");
    }
    last = level;
  }
  if (!kernels::tail_is_zero(in.packed, values * width())) {
    throw WireError(std::string(name_) + ": bits after the last symbol of a segment that are not zero");
  }
}

void FittedLevels::add_decoded(const Quantised& in, float scale, std::span<float> out) const {
  std::array<float, 2 * kernels::most_shares> table;  // by symbol
  table[0] = 0;
  for (std::size_t j = 1; j < count(); ++j) {
    const float level = j + 1 < count() ? kernels::load<float>(in.side.data(), j - 1) : 1.0F;
    table[2 * j] = level;
    table[2 * j - 1] = -level;
  }
  table[2 * count() - 1] = -1;  // no encoder writes this symbol
  const auto norms = in.side.subspan(head());
  pool().run_stretches(out.size(), PackedSymbols::task(pool()), [&](std::size_t begin, std::size_t end) {
    PackedSymbols{width()}.unpack(begin, end, in.packed, [&](std::size_t from, std::span<const std::uint16_t> symbols) {
      kernels::add_from_table(symbols, blocks_.norms(norms, from), std::span(table).first(2 * count()), scale,
                              out.subspan(from, symbols.size()));
    });
  });
}

Contract FittedLevels::contract(std::size_t largest) const {
  // More levels never add variance, but levels that are fitted to a sample may not help the other values. This is
  // therefore the bound for a single level, as for terngrad: E |C(x)-x|^2 <= norm |x|_1 - |x|^2, at most norm^2 / 4 a
  // value.
  const double n = static_cast<double>(std::max<std::size_t>(std::min(largest, blocks_.block), 1));
  return {.kind = Contract::Kind::unbiased,
          .omega = std::min(std::sqrt(n), n / 4),
          .delta = 0,
          .input = Contract::Input::delta,
          .grain = Contract::Grain::segment,
          .chance = Contract::Chance::own};
}

bool descend(const LevelSample& sample, std::span<float> levels) {
  bool moved = false;
  for (std::size_t j = 1; j + 1 < levels.size(); ++j) {
    const double low = levels[j - 1];
    const double high = levels[j + 1];
    const std::size_t first = sample.up_to(levels[j - 1]);
    const std::size_t last = sample.below(levels[j + 1]);
    if (first >= last) continue;
    // The variance is a convex function of the level with corners at the shares: its slope after share i is the slope
    // of sum(w (r - low)) over the shares between the neighbours, less (high - low) times the weight of the shares
    // above i. The level is the first share after which the variance falls no more. (Theorem 1 of the paper, for a
    // sample.)
    const LevelSample::Moments all = sample.sum(first, last);
    const double rise = all.shares - low * all.weight;
    std::size_t begin = first;
    std::size_t end = last - 1;
    while (begin < end) {
      const std::size_t middle = begin + (end - begin) / 2;
      if ((high - low) * sample.sum(middle + 1, last).weight <= rise) {
        end = middle;
      } else {
        begin = middle + 1;
      }
    }
    moved = moved || levels[j] != sample.shares()[begin];
    levels[j] = sample.shares()[begin];
  }
  return moved;
}

void Alq::fit(const LevelSample& sample, std::span<float> levels) {
  const auto top = static_cast<float>(levels.size() - 1);
  for (std::size_t j = 1; j + 1 < levels.size(); ++j) levels[j] = static_cast<float>(j) / top;
  for (std::int64_t round = 0; round < rounds_ && descend(sample, levels); ++round) {
  }
}

void OptimalLevels::reserve(std::size_t candidates, std::size_t levels) {
  candidates_.room(candidates + 2);
  variances_.room(2 * (candidates + 2));
  choices_.room((candidates + 2) * levels);
}

// Lists the candidates 0, up to `most` shares between 0 and 1, and 1; returns the number of candidates.
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
