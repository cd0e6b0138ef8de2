#include "sotto/kernels/gaps.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/gaps.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include "sotto/kernels/element.h"
#include "sotto/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

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

HWY_EXPORT(gap_sizes);

GapSizes gap_sizes(std::span<const std::uint32_t> numbers, std::uint32_t next, unsigned shift) {
  return HWY_DYNAMIC_DISPATCH(gap_sizes)(numbers, next, shift);
}

}  // namespace sotto::kernels
#endif
