#include "sotto/kernels/uint8.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/uint8.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include "sotto/kernels/levels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

void to_uint8(std::span<const float> values, const Norms& ends, std::span<std::byte> out) {
  round_nearest(values, ends, Intervals{ends.floats.data()}, Bytes{out.data()});
}

void to_uint8_stochastic(std::span<const float> values, const Norms& ends, const Draws& draws,
                         std::span<std::byte> out) {
  round_at_random(values, ends, Intervals{ends.floats.data()}, draws, Bytes{out.data()});
}

struct AddRun {
  HWY_INLINE void operator()(std::size_t begin, std::size_t end, const element::Interval& grid) const {
    std::size_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      const VF level = hn::ConvertTo(F32(), hn::PromoteTo(I32(), load_bytes(U8(), in + i)));
      const VF inside = hn::Add(set(grid.begin), hn::Mul(level, set(grid.step)));
      const VF value = hn::IfThenElse(hn::Eq(level, set(grid.top)), set(grid.end), inside);
      accumulate(hn::Mul(value, set(grid.down)), set(scale), out + i);
    }
    for (; i < end; ++i) out[i] += scale * grid.from(load<std::uint8_t>(in, i));
  }
  const std::byte* in;
  float scale;
  float* out;
};

void add_uint8(std::span<const std::byte> in, const Norms& ends, float scale, std::span<float> out) {
  for_blocks(ends, out.size(), Intervals{ends.floats.data()}, AddRun{in.data(), scale, out.data()});
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(to_uint8);
HWY_EXPORT(to_uint8_stochastic);
HWY_EXPORT(add_uint8);

void to_uint8(std::span<const float> values, const Norms& ends, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(to_uint8)(values, ends, out);
}
void to_uint8_stochastic(std::span<const float> values, const Norms& ends, const Draws& draws,
                         std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(to_uint8_stochastic)(values, ends, draws, out);
}
void add_uint8(std::span<const std::byte> in, const Norms& ends, float scale, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(add_uint8)(in, ends, scale, out);
}

}  // namespace sotto::kernels
#endif
