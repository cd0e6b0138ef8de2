#include "sotto/kernels/select.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/select.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <limits>

#include "sotto/kernels/element.h"
#include "sotto/kernels/lane_sum-inl.h"
#include "sotto/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

std::size_t collect_magnitudes(std::span<const float> values, std::uint32_t least, std::uint32_t first,
                               std::uint32_t* out) {
  // Usually few values are taken, so a whole block is tested first.
  constexpr std::size_t vectors = 4;
  constexpr std::size_t block = vectors * lanes;
  const VI below = hn::Set(I32(), static_cast<std::int32_t>(least - 1));
  const VU numbers = hn::Iota(U32(), first);
  std::size_t count = 0;
  std::size_t i = 0;
  for (; i + block <= values.size(); i += block) {
    VI bits[vectors];
    for (std::size_t j = 0; j < vectors; ++j) bits[j] = magnitudes(load_floats(&values[i + j * lanes]));
    const VI most = hn::Max(hn::Max(bits[0], bits[1]), hn::Max(bits[2], bits[3]));
    if (hn::AllFalse(I32(), hn::Gt(most, below))) continue;
    for (std::size_t j = 0; j < vectors; ++j) {
      const VU number = hn::Add(numbers, set_bits(static_cast<std::uint32_t>(i + j * lanes)));
      // Stores a whole vector. There is room, since at most as many numbers as values precede it. (CompressStore would
      // write only the taken numbers, but takes a hundred cycles on some processors.)
      const auto taken = hn::RebindMask(U32(), hn::Gt(bits[j], below));
      hn::StoreU(hn::Compress(number, taken), U32(), out + count);
      count += hn::CountTrue(U32(), taken);
    }
  }
  for (; i < values.size(); ++i) {
    if (element::magnitude_bits(values[i]) >= least) out[count++] = first + static_cast<std::uint32_t>(i);
  }
  return count;
}

// 2^31 p of an element, before rounding to the whole number t.
struct Proportional {
  HWY_INLINE VF vector(VF value) const { return hn::Mul(hn::Mul(set(factor), hn::Abs(value)), set(certain)); }
  float one(float value) const { return factor * std::abs(value) * certain; }
  float factor, certain;
};

struct Uniform {
  HWY_INLINE VF vector(VF) const { return set(p * element::certain); }
  float one(float) const { return p * element::certain; }
  float p;
};

template <class Chance>
std::size_t draw(std::span<const float> values, const ElementStream& stream, std::uint32_t number, std::uint32_t first,
                 std::uint32_t* indices, float* scales, Chance chance) {
  constexpr float below_certain = 0x1.fffffep30F;  // the largest float below 2^31
  const VU numbers = hn::Iota(U32(), 0);
  const VI one = hn::Set(I32(), 1);
  std::size_t count = 0;
  std::size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) {
    const auto at = static_cast<std::uint32_t>(i);
    const VF value = load_floats(&values[i]);
    const VF wanted = chance.vector(value);
    const VI t = hn::Max(hn::ConvertTo(I32(), hn::Min(wanted, set(below_certain))), one);
    const VU hash = random_numbers(hn::Add(numbers, set_bits(number + at + stream.k0)), set_bits(stream.k1));
    const auto certain = hn::RebindMask(I32(), hn::Ge(wanted, set(element::certain)));
    const auto drawn = hn::Or(hn::Lt(hn::BitCast(I32(), hn::ShiftRight<1>(hash)), t), certain);
    const auto taken = hn::And(drawn, hn::RebindMask(I32(), hn::Ne(value, hn::Zero(F32()))));
    const VF whole = hn::IfThenElse(hn::RebindMask(F32(), certain), set(element::certain), hn::ConvertTo(F32(), t));
    // Stores whole vectors. There is room, since at most `i` numbers precede them. Testing first whether any element is
    // taken costs more, since the branch is hard to predict.
    hn::StoreU(hn::Compress(hn::Add(numbers, set_bits(first + at)), hn::RebindMask(U32(), taken)), U32(),
               indices + count);
    hn::StoreU(hn::Compress(whole, hn::RebindMask(F32(), taken)), F32(), scales + count);
    count += hn::CountTrue(I32(), taken);
  }
  for (; i < values.size(); ++i) {
    const auto at = static_cast<std::uint32_t>(i);
    const std::uint32_t t = element::coin(chance.one(values[i]));
    if (values[i] == 0 || (stream.quick(number + at) >> 1) >= t) continue;
    indices[count] = first + at;
    scales[count++] = static_cast<float>(t);
  }
  for (std::size_t j = 0; j < count; ++j) scales[j] = element::certain / scales[j];
  return count;
}

// For denormal values the factor may exceed the range of floats. Then a power of two moves from it to `certain`.
std::size_t draw_proportional(std::span<const float> values, double factor, const ElementStream& stream,
                              std::uint32_t number, std::uint32_t first, std::uint32_t* indices, float* scales) {
  constexpr double unit = 0x1p64;
  const bool large = factor > static_cast<double>(std::numeric_limits<float>::max());
  const Proportional chance{static_cast<float>(large ? factor / unit : factor),
                            large ? static_cast<float>(element::certain * unit) : element::certain};
  return draw(values, stream, number, first, indices, scales, chance);
}

std::size_t draw_uniform(std::span<const float> values, float p, const ElementStream& stream, std::uint32_t number,
                         std::uint32_t first, std::uint32_t* indices, float* scales) {
  return draw(values, stream, number, first, indices, scales, Uniform{p});
}

struct Below {
  HWY_INLINE VD operator()(VD x) const {
    const VD magnitude = hn::Abs(x);
    return hn::IfThenElseZero(hn::Lt(magnitude, hn::Set(F64(), least)), magnitude);
  }
  double operator()(double x) const { return std::abs(x) < least ? std::abs(x) : 0; }
  double least;
};

double sum_abs_below(std::span<const float> values, float least) { return lane_sum(values, Below{least}); }

// All gaps together are less than 2^32, and so is each sum here.
GapSizes gap_sizes(std::span<const std::uint32_t> numbers, std::uint32_t next, unsigned shift) {
  GapSizes sizes;
  const auto add = [&](std::uint32_t gap) {
    sizes.more_groups += element::gap_groups(gap) - 1;
    sizes.long_runs += gap / element::longest_run;
    for (unsigned j = 0; j < sizes.quotients.size(); ++j) sizes.quotients[j] += gap >> (shift + j);
  };
  if (numbers.empty()) return sizes;
  add(numbers[0] - next);
  VU more = hn::Zero(U32()), first = more, second = more, third = more;
  const auto bits = static_cast<int>(shift);
  std::size_t i = 1;
  for (; i + lanes <= numbers.size(); i += lanes) {
    const VU before = hn::LoadU(U32(), &numbers[i - 1]);
    const VU gap = hn::Sub(hn::Sub(hn::LoadU(U32(), &numbers[i]), before), set_bits(1));
    const auto two_groups = hn::Gt(gap, set_bits((1U << 7) - 1));
    more = hn::Sub(more, hn::VecFromMask(U32(), two_groups));
    const auto three_groups = hn::Gt(gap, set_bits((1U << 14) - 1));
    if (HWY_UNLIKELY(!hn::AllFalse(U32(), three_groups))) {
      more = hn::Sub(more, hn::VecFromMask(U32(), three_groups));
      more = hn::Sub(more, hn::VecFromMask(U32(), hn::Gt(gap, set_bits((1U << 21) - 1))));
      more = hn::Sub(more, hn::VecFromMask(U32(), hn::Gt(gap, set_bits((1U << 28) - 1))));
      for (std::size_t j = i; j < i + lanes; ++j) {
        sizes.long_runs += (numbers[j] - numbers[j - 1] - 1) / element::longest_run;
      }
    }
    const VU quotient = hn::ShiftRightSame(gap, bits);
    first = hn::Add(first, quotient);
    second = hn::Add(second, hn::ShiftRight<1>(quotient));
    third = hn::Add(third, hn::ShiftRight<2>(quotient));
  }
  sizes.more_groups += hn::GetLane(hn::SumOfLanes(U32(), more));
  sizes.quotients[0] += hn::GetLane(hn::SumOfLanes(U32(), first));
  sizes.quotients[1] += hn::GetLane(hn::SumOfLanes(U32(), second));
  sizes.quotients[2] += hn::GetLane(hn::SumOfLanes(U32(), third));
  for (; i < numbers.size(); ++i) add(numbers[i] - numbers[i - 1] - 1);
  return sizes;
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(collect_magnitudes);

std::size_t collect_magnitudes(std::span<const float> values, std::uint32_t least, std::uint32_t first,
                               std::uint32_t* out) {
  return HWY_DYNAMIC_DISPATCH(collect_magnitudes)(values, least, first, out);
}

HWY_EXPORT(draw_proportional);
HWY_EXPORT(draw_uniform);
HWY_EXPORT(sum_abs_below);

std::size_t draw_proportional(std::span<const float> values, double factor, const ElementStream& stream,
                              std::uint32_t number, std::uint32_t first, std::uint32_t* indices, float* scales) {
  return HWY_DYNAMIC_DISPATCH(draw_proportional)(values, factor, stream, number, first, indices, scales);
}
std::size_t draw_uniform(std::span<const float> values, float p, const ElementStream& stream, std::uint32_t number,
                         std::uint32_t first, std::uint32_t* indices, float* scales) {
  return HWY_DYNAMIC_DISPATCH(draw_uniform)(values, p, stream, number, first, indices, scales);
}
double sum_abs_below(std::span<const float> values, std::uint32_t least) {
  return HWY_DYNAMIC_DISPATCH(sum_abs_below)(values, std::bit_cast<float>(least));
}

HWY_EXPORT(gap_sizes);

GapSizes gap_sizes(std::span<const std::uint32_t> numbers, std::uint32_t next, unsigned shift) {
  return HWY_DYNAMIC_DISPATCH(gap_sizes)(numbers, next, shift);
}

}  // namespace sotto::kernels
#endif
