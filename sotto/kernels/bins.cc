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

// The extremes of one sign. Its values have bits from 1 to 2^31 - 1. The least is found as the minimum of bits - 1,
// because zeros and values of the other sign then become large.
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

// BinSearch::Table::by_cells() for whole vectors whose cells are not crowded.
void find_bins(const BinSearch::Table& table, std::span<const float> values, std::span<std::uint16_t> bins) {
  const auto of_sides = [](const std::array<std::uint32_t, 2>& both, auto negative) {
    return hn::IfThenElse(negative, set_bits(both[1]), set_bits(both[0]));
  };
  const VU sign = set_bits(element::sign_mask);
  std::size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) {
    const VU bits = hn::BitCast(U32(), load_floats(&values[i]));
    const VU key = hn::IfThenZeroElse(hn::Eq(bits, sign), bits);
    const auto negative = hn::RebindMask(U32(), hn::Lt(hn::BitCast(I32(), key), hn::Zero(I32())));
    const VU base = of_sides(table.base, negative);
    const VU above = hn::Sub(hn::Max(hn::AndNot(sign, key), base), base);
    const VU cell = hn::Min(hn::Shr(above, of_sides(table.shift, negative)), set_bits(BinSearch::cells - 1));
    const VU place = hn::Add(cell, hn::IfThenElseZero(negative, set_bits(BinSearch::cells)));
    const VU below = hn::GatherIndex(U32(), table.below.data(), hn::BitCast(I32(), place));
    if (!hn::AllTrue(U32(), hn::Lt(below, set_bits(BinSearch::crowded)))) {
      for (std::size_t j = i; j < i + lanes; ++j) {
        bins[j] = static_cast<std::uint16_t>(table.by_cells(element::bin_key(values[j])));
      }
      continue;
    }
    const VU split = hn::GatherIndex(U32(), table.splits.data(), hn::BitCast(I32(), below));
    const VU bin = hn::Add(below, hn::IfThenZeroElse(hn::Lt(key, split), set_bits(1)));
    hn::StoreU(hn::TruncateTo(U16(), bin), U16(), &bins[i]);
  }
  for (; i < values.size(); ++i) bins[i] = static_cast<std::uint16_t>(table.by_cells(element::bin_key(values[i])));
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
HWY_EXPORT(find_bins);

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
  constexpr unsigned passes = 3;
  constexpr unsigned bits = 11;
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
  if (passes % 2 != 0) std::copy(keys.begin(), keys.end(), room.begin());  // back to the caller's `keys`
}

void BinSearch::set(std::span<const std::uint32_t> splits, std::size_t values) {
  constexpr std::size_t few = 4096;  // for fewer values building a table does not pay
  std::copy(splits.begin(), splits.end(), table_.splits.begin());
  std::fill(table_.splits.begin() + static_cast<std::ptrdiff_t>(splits.size()), table_.splits.end(), beyond);
  count_ = splits.size();
  has_cells_ = values >= few;
  if (!has_cells_) return;
  const auto negative = std::lower_bound(splits.begin(), splits.end(), element::sign_mask) - splits.begin();
  set_side(0, 0, static_cast<std::size_t>(negative));
  set_side(1, static_cast<std::size_t>(negative), count_);
}

// Cell 0 also holds all keys below the second split, and with them the first split. The last cell also holds all keys
// above the last split.
void BinSearch::set_side(std::size_t side, std::size_t first, std::size_t last) {
  const auto& splits = table_.splits;
  const std::uint32_t sign = side == 0 ? 0 : element::sign_mask;
  std::uint32_t base = 0;
  std::uint32_t shift = 0;
  if (last - first > 1) {
    base = splits[first + 1] - sign;
    const std::uint32_t range = splits[last - 1] - splits[first + 1];
    while ((range >> shift) + 1 > cells - 1) ++shift;
    base -= std::min(base, std::uint32_t{1} << shift);
  }
  table_.base[side] = base;
  table_.shift[side] = shift;
  const auto cell_of = [&](std::size_t split) {
    return std::min((std::max(splits[split] - sign, base) - base) >> shift, cells - 1);
  };
  const auto below = table_.below.begin() + static_cast<std::ptrdiff_t>(side * cells);
  std::uint32_t written = 0;  // the number of cells that are filled in
  for (std::size_t split = first; split < last;) {
    const std::uint32_t cell = cell_of(split);
    std::fill(below + written, below + cell, static_cast<std::uint32_t>(split));
    const bool at_begin = cell > 0 && splits[split] - sign == base + (cell << shift);
    const auto its_below = static_cast<std::uint32_t>(split + (at_begin ? 1 : 0));
    while (split < last && cell_of(split) == cell) ++split;
    below[cell] = its_below | (split - its_below > 1 ? crowded : 0);
    written = cell + 1;
  }
  std::fill(below + written, below + cells, static_cast<std::uint32_t>(last));
}

std::uint32_t BinSearch::Table::by_halves(std::uint32_t key) const {
  std::uint32_t bin = 0;
  for (std::uint32_t step = most_bins / 2; step > 0; step /= 2) bin += splits[bin + step - 1] <= key ? step : 0;
  return bin;
}

inline std::uint32_t BinSearch::Table::by_cells(std::uint32_t key) const {
  const std::uint32_t side = key >> 31;
  const std::uint32_t magnitude = key & ~element::sign_mask;
  const std::uint32_t above = std::max(magnitude, base[side]) - base[side];
  std::uint32_t bin = below[side * cells + std::min(above >> shift[side], cells - 1)];
  const bool many = bin >= crowded;
  bin &= ~crowded;
  bin += splits[bin] <= key ? 1 : 0;
  if (!many) return bin;
  bin += splits[bin] <= key ? 1 : 0;
  return splits[bin] <= key ? by_halves(key) : bin;
}

void BinSearch::find(std::span<const float> values, std::span<std::uint16_t> bins) const {
  if (has_cells_) return HWY_DYNAMIC_DISPATCH(find_bins)(table_, values, bins);
  for (std::size_t i = 0; i < values.size(); ++i) {
    bins[i] = static_cast<std::uint16_t>(table_.by_halves(element::bin_key(values[i])));
  }
}

void add_terms(std::span<const std::uint16_t> bins, const float* terms, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] += terms[bins[i]];
}

}  // namespace sotto::kernels
#endif
