#include "sotto/kernels/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/reduce.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <algorithm>

#include "sotto/kernels/bits.h"
#include "sotto/kernels/lane_sum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

struct Itself {
  HWY_INLINE VD operator()(VD x) const { return x; }
  double operator()(double x) const { return x; }
};

struct Square {
  HWY_INLINE VD operator()(VD x) const { return hn::Mul(x, x); }
  double operator()(double x) const { return x * x; }
};

double sum_abs(std::span<const float> values) { return lane_sum(values, Magnitude()); }
double sum_squares(std::span<const float> values) { return lane_sum(values, Square()); }

std::uint32_t max_abs_bits(std::span<const float> values) {
  constexpr std::size_t chains = 4;  // independent chains of maxima
  VI most[chains] = {hn::Zero(I32()), hn::Zero(I32()), hn::Zero(I32()), hn::Zero(I32())};
  std::size_t i = 0;
  for (; i + chains * lanes <= values.size(); i += chains * lanes) {
    for (std::size_t j = 0; j < chains; ++j) {
      most[j] = hn::Max(most[j], magnitudes(load_floats(&values[i + j * lanes])));
    }
  }
  for (; i + lanes <= values.size(); i += lanes) most[0] = hn::Max(most[0], magnitudes(load_floats(&values[i])));
  const VI both = hn::Max(hn::Max(most[0], most[1]), hn::Max(most[2], most[3]));
  auto result = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(I32(), both)));
  for (; i < values.size(); ++i) result = std::max(result, element::magnitude_bits(values[i]));
  return result;
}

std::uint32_t max_abs_blocks(std::span<const float> values, std::size_t block, std::span<std::byte> norms) {
  std::uint32_t result = 0;
  for (std::size_t begin = 0, b = 0; begin < values.size(); ++b) {
    const std::size_t count = std::min(block, values.size() - begin);
    const std::uint32_t bits = max_abs_bits(values.subspan(begin, count));
    store(norms.data(), b, bits);
    result = std::max(result, bits);
    begin += count;
  }
  return result;
}

// Maps floats to whole numbers of the same order: NaN beyond the infinities on both sides, -0 below 0.
HWY_INLINE VI ordered(VF v) {
  const VI bits = hn::BitCast(I32(), v);
  return hn::Xor(bits, hn::And(hn::BroadcastSignBit(bits), hn::Set(I32(), 0x7FFFFFFF)));
}
std::int32_t ordered(float v) {
  const auto bits = std::bit_cast<std::int32_t>(v);
  return bits < 0 ? bits ^ 0x7FFFFFFF : bits;
}
// The inverse of ordered(), except that -0 becomes 0.
float from_ordered(std::int32_t number) {
  return std::bit_cast<float>(number < 0 ? number ^ 0x7FFFFFFF : number) + 0.0F;
}

bool interval(std::span<const float> values, std::byte* ends) {
  constexpr std::size_t chains = 2;
  const VI first = hn::Set(I32(), ordered(values[0]));
  VI low[chains] = {first, first}, high[chains] = {first, first};
  std::size_t i = 0;
  for (; i + chains * lanes <= values.size(); i += chains * lanes) {
    for (std::size_t j = 0; j < chains; ++j) {
      const VI number = ordered(load_floats(&values[i + j * lanes]));
      low[j] = hn::Min(low[j], number);
      high[j] = hn::Max(high[j], number);
    }
  }
  std::int32_t least = hn::GetLane(hn::MinOfLanes(I32(), hn::Min(low[0], low[1])));
  std::int32_t most = hn::GetLane(hn::MaxOfLanes(I32(), hn::Max(high[0], high[1])));
  for (; i < values.size(); ++i) {
    least = std::min(least, ordered(values[i]));
    most = std::max(most, ordered(values[i]));
  }
  store(ends, 0, from_ordered(least));
  store(ends, 1, from_ordered(most));
  constexpr auto infinite = static_cast<std::int32_t>(infinity_bits);
  return most < infinite && least > ~infinite;
}

bool interval_blocks(std::span<const float> values, std::size_t block, std::span<std::byte> ends) {
  for (std::size_t begin = 0, b = 0; begin < values.size(); ++b) {
    const std::size_t count = std::min(block, values.size() - begin);
    if (!interval(values.subspan(begin, count), &ends[b * 2 * sizeof(float)])) return false;
    begin += count;
  }
  return true;
}

// Calls add(values) for each sixteen values of a chunk, and returns the values that are left. Before a block of values
// is added up, look(block) gets it, so that values are read from memory once. A block has a multiple of sixteen values.
template <class Look, class Add>
HWY_INLINE std::span<const float> look_and_add(std::span<const float> chunk, Look look, Add add) {
  constexpr std::size_t block = 2048;
  std::size_t i = 0;
  for (; i + sum_lanes <= chunk.size(); i += sum_lanes) {
    if (i % block == 0) look(chunk.subspan(i, std::min(block, chunk.size() - i)));
    prefetch_ahead(&chunk[i]);
    add(&chunk[i]);
  }
  if (i % block == 0) look(chunk.subspan(i));
  return chunk.subspan(i);
}

// As lane_sum(), with a look at each block.
template <class Term, class Look>
HWY_INLINE double sum_and_look(std::span<const float> values, Term term, Look look) {
  return sum_of_chunks(values, [&](std::span<const float> chunk, std::size_t) {
    LaneSum sum;
    const auto rest = look_and_add(chunk, look, [&](const float* some) { sum.add(some, term); });
    return sum.finish(rest, term);
  });
}

template <class Term>
Spread spread_of(std::span<const float> values, Term term) {
  Spread spread;
  spread.sum = sum_and_look(values, term, [&](std::span<const float> block) {
    spread.max_abs_bits = std::max(spread.max_abs_bits, max_abs_bits(block));
  });
  return spread;
}

struct Reach {
  HWY_INLINE VD operator()(VD x) const {
    const VD magnitude = hn::Abs(x);
    return hn::IfThenElseZero(hn::Ge(magnitude, hn::Set(F64(), least)), magnitude);
  }
  double operator()(double x) const { return std::abs(x) >= least ? std::abs(x) : 0; }
  double least;
};

std::uint64_t count_reaching(std::span<const float> values, std::uint32_t least) {
  const VI below = hn::Set(I32(), static_cast<std::int32_t>(least - 1));
  std::uint64_t count = 0;
  std::size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) {
    count += hn::CountTrue(I32(), hn::Gt(magnitudes(load_floats(&values[i])), below));
  }
  for (; i < values.size(); ++i) count += element::magnitude_bits(values[i]) >= least ? 1 : 0;
  return count;
}

Reaching reaching(std::span<const float> values, std::uint32_t least) {
  Reaching all;
  all.sum = sum_and_look(values, Reach{std::bit_cast<float>(least)},
                         [&](std::span<const float> block) { all.count += count_reaching(block, least); });
  return all;
}

Spread spread_abs(std::span<const float> values) { return spread_of(values, Magnitude()); }
Spread spread_squares(std::span<const float> values) { return spread_of(values, Square()); }

Moments moments(std::span<const float> values) {
  Moments all;
  const auto look = [&](std::span<const float> block) {
    all.max_abs_bits = std::max(all.max_abs_bits, max_abs_bits(block));
  };
  all.squares = sum_of_chunks(values, [&](std::span<const float> chunk, std::size_t) {
    LaneSum sum, squares;
    const auto rest = look_and_add(chunk, look, [&](const float* some) {
      sum.add(some, Itself());
      squares.add(some, Square());
    });
    all.sum += sum.finish(rest, Itself());
    return squares.finish(rest, Square());
  });
  return all;
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(sum_abs);
HWY_EXPORT(sum_squares);
HWY_EXPORT(max_abs_bits);
HWY_EXPORT(max_abs_blocks);
HWY_EXPORT(interval_blocks);
HWY_EXPORT(spread_abs);
HWY_EXPORT(spread_squares);
HWY_EXPORT(moments);
HWY_EXPORT(reaching);

double sum_abs(std::span<const float> values) { return HWY_DYNAMIC_DISPATCH(sum_abs)(values); }
double sum_squares(std::span<const float> values) { return HWY_DYNAMIC_DISPATCH(sum_squares)(values); }
std::uint32_t max_abs_bits(std::span<const float> values) { return HWY_DYNAMIC_DISPATCH(max_abs_bits)(values); }
std::uint32_t max_abs_blocks(std::span<const float> values, std::size_t block, std::span<std::byte> norms) {
  return HWY_DYNAMIC_DISPATCH(max_abs_blocks)(values, block, norms);
}
bool interval_blocks(std::span<const float> values, std::size_t block, std::span<std::byte> ends) {
  return HWY_DYNAMIC_DISPATCH(interval_blocks)(values, block, ends);
}
Spread spread_abs(std::span<const float> values) { return HWY_DYNAMIC_DISPATCH(spread_abs)(values); }
Spread spread_squares(std::span<const float> values) { return HWY_DYNAMIC_DISPATCH(spread_squares)(values); }
Moments moments(std::span<const float> values) { return HWY_DYNAMIC_DISPATCH(moments)(values); }
Reaching reaching(std::span<const float> values, std::uint32_t least) {
  return HWY_DYNAMIC_DISPATCH(reaching)(values, least);
}
bool all_finite(std::span<const float> values) { return max_abs_bits(values) < infinity_bits; }

}  // namespace sotto::kernels
#endif
