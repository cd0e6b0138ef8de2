#include "sotto/kernels/bins.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/bins.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "sotto/kernels/element.h"
#include "sotto/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

// Of a sign, whose values have bits of 1 to 2^31 - 1: the least is looked for among bits - 1, in which zeros and the
// other sign are large.
struct SideOf {
  HWY_INLINE void add(VU bits) {
    least = hn::Min(least, hn::Sub(bits, set_bits(1)));
    most = hn::Max(most, hn::BitCast(I32(), bits));
  }
  void add_one(std::uint32_t bits) {
    if (bits >= element::sign_mask || bits == 0) return;
    side.least = std::min(side.least, bits);
    side.most = std::max(side.most, bits);
  }
  Extremes::Side result() const {
    HWY_ALIGN std::uint32_t low[lanes];
    HWY_ALIGN std::int32_t high[lanes];
    hn::Store(least, U32(), low);
    hn::Store(most, I32(), high);
    Extremes::Side all = side;
    for (std::size_t j = 0; j < lanes; ++j) {
      all.least = std::min(all.least, low[j] + (low[j] < element::sign_mask ? 1 : 0));
      all.most = std::max(all.most, static_cast<std::uint32_t>(high[j]));
    }
    return all;
  }
  VU least;
  VI most;
  Extremes::Side side;
};

Extremes extremes(std::span<const float> values) {
  SideOf positive{set_bits(0x7FFFFFFFU), hn::Zero(I32()), {}};
  SideOf negative = positive;
  std::size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) {
    const VU bits = hn::BitCast(U32(), load_floats(&values[i]));
    positive.add(bits);
    negative.add(hn::Xor(bits, set_bits(element::sign_mask)));
  }
  for (; i < values.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    positive.add_one(bits);
    negative.add_one(bits ^ element::sign_mask);
  }
  return {positive.result(), negative.result()};
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {
namespace {

constexpr std::uint32_t beyond = std::numeric_limits<std::uint32_t>::max();

}  // namespace

HWY_EXPORT(extremes);

Extremes extremes(std::span<const float> values) { return HWY_DYNAMIC_DISPATCH(extremes)(values); }

Extremes join(const Extremes& a, const Extremes& b) {
  const auto both = [](const Extremes::Side& x, const Extremes::Side& y) {
    return Extremes::Side{std::min(x.least, y.least), std::max(x.most, y.most)};
  };
  return {both(a.positive, b.positive), both(a.negative, b.negative)};
}

void sort_keys(std::span<std::uint32_t> keys, std::span<std::uint32_t> room) {
  constexpr std::size_t few = 1000;
  if (keys.size() < few) return std::sort(keys.begin(), keys.end());
  constexpr unsigned passes = 4;
  constexpr unsigned bits = 8;
  constexpr std::uint32_t mask = (1U << bits) - 1;
  std::array<std::array<std::uint32_t, 1U << bits>, passes> places{};
  for (const std::uint32_t key : keys) {
    for (unsigned p = 0; p < passes; ++p) ++places[p][(key >> (p * bits)) & mask];
  }
  for (unsigned p = 0; p < passes; ++p) {
    std::uint32_t sum = 0;
    for (std::uint32_t& place : places[p]) sum += std::exchange(place, sum);
    for (const std::uint32_t key : keys) room[places[p][(key >> (p * bits)) & mask]++] = key;
    std::swap(keys, room);
  }
}

void BinSearch::set(std::span<const std::uint32_t> splits, std::size_t values) {
  constexpr std::size_t few = 4096;  // for which a table is not worth its making
  std::copy(splits.begin(), splits.end(), splits_.begin());
  std::fill(splits_.begin() + static_cast<std::ptrdiff_t>(splits.size()), splits_.end(), beyond);
  count_ = splits.size();
  table_ = values >= few;
  if (!table_) return;
  const auto negative = std::lower_bound(splits.begin(), splits.end(), element::sign_mask) - splits.begin();
  set_side(sides_[0], 0, static_cast<std::size_t>(negative), 0);
  set_side(sides_[1], static_cast<std::size_t>(negative), count_, element::sign_mask);
}

void BinSearch::set_side(Side& side, std::size_t first, std::size_t last, std::uint32_t sign) {
  side.base = last - first < 2 ? 0 : splits_[first + 1] - sign;
  const std::uint32_t range = last - first < 2 ? 0 : splits_[last - 1] - splits_[first + 1];
  side.shift = range < cells ? 0 : static_cast<unsigned>(std::bit_width(range)) - std::bit_width(cells - 1);
  // Keys below the base, too, come to cell 0.
  side.below[0] = static_cast<std::uint8_t>(first);
  std::size_t below = first;
  for (std::uint32_t c = 1; c < cells; ++c) {
    const std::uint64_t low = sign + std::uint64_t{side.base} + (std::uint64_t{c} << side.shift);
    while (below < last && splits_[below] <= low) ++below;
    side.below[c] = static_cast<std::uint8_t>(below);
  }
}

std::uint32_t BinSearch::by_halves(std::uint32_t key) const {
  std::uint32_t bin = 0;
  for (std::uint32_t step = most_bins / 2; step > 0; step /= 2) bin += splits_[bin + step - 1] <= key ? step : 0;
  return bin;
}

inline std::uint32_t BinSearch::by_cells(std::uint32_t key) const {
  const Side& side = sides_[key >> 31];
  const std::uint32_t magnitude = key & ~element::sign_mask;
  const std::uint32_t above = magnitude < side.base ? 0 : magnitude - side.base;
  std::uint32_t bin = side.below[std::min(above >> side.shift, cells - 1)];
  bin += splits_[bin] <= key ? 1 : 0;
  bin += splits_[bin] <= key ? 1 : 0;
  return splits_[bin] <= key ? by_halves(key) : bin;
}

void BinSearch::find(std::span<const float> values, std::span<std::uint16_t> bins) const {
  if (!table_) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      bins[i] = static_cast<std::uint16_t>(by_halves(element::bin_key(values[i])));
    }
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    bins[i] = static_cast<std::uint16_t>(by_cells(element::bin_key(values[i])));
  }
}

void add_terms(std::span<const std::uint16_t> bins, const float* terms, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] += terms[bins[i]];
}

}  // namespace sotto::kernels
#endif
