#include "sotto/kernels/nf4.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/nf4.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include "sotto/kernels/levels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

struct NearestRun {
  HWY_INLINE void operator()(std::size_t begin, std::size_t end, float norm) const {
    const element::Grid grid(norm, 1);
    std::size_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      const VF y = position(load_floats(values + i), grid);
      auto below = hn::Zero(I32());
      for (const float middle : nf4_middles) {
        below = hn::Sub(below, hn::BitCast(I32(), hn::VecFromMask(F32(), hn::Gt(y, set(middle)))));
      }
      hn::StoreU(hn::DemoteTo(U16(), below), U16(), symbols + i);
    }
    for (; i < end; ++i) {
      const float y = grid.at(values[i]);
      unsigned below = 0;
      for (const float middle : nf4_middles) below += y > middle ? 1 : 0;
      symbols[i] = static_cast<std::uint16_t>(below);
    }
  }
  const float* values;
  std::uint16_t* symbols;
};

void nearest_nf4(std::span<const float> values, const Norms& norms, std::span<std::uint16_t> symbols) {
  for_norms(norms, values.size(), NearestRun{values.data(), symbols.data()});
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(nearest_nf4);

void nearest_nf4(std::span<const float> values, const Norms& norms, std::span<std::uint16_t> symbols) {
  HWY_DYNAMIC_DISPATCH(nearest_nf4)(values, norms, symbols);
}

}  // namespace sotto::kernels
#endif
