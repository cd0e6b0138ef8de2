#include "sotto/kernels/int8.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/int8.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include "sotto/kernels/levels-inl.h"
#include "sotto/kernels/load.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

struct AddRun {
  HWY_INLINE void operator()(std::size_t begin, std::size_t end, float norm) const {
    constexpr float step = 1.0F / static_cast<float>(int8_top);
    const hn::Rebind<std::int8_t, F32> signed_bytes;
    std::size_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      const VF level = hn::ConvertTo(F32(), hn::PromoteTo(I32(), load_bytes(signed_bytes, in + i)));
      accumulate(from_level(level, norm, step), set(scale), out + i);
    }
    for (; i < end; ++i) out[i] += scale * element::from_level(load<std::int8_t>(in, i), norm, step);
  }
  const std::byte* in;
  float scale;
  float* out;
};

void add_int8(std::span<const std::byte> in, const Norms& norms, float scale, std::span<float> out) {
  for_norms(norms, out.size(), AddRun{in.data(), scale, out.data()});
}

bool valid_int8(std::span<const std::byte> in) {
  const hn::CappedTag<std::int8_t, 64> d;
  const std::size_t step = hn::Lanes(d);
  auto least = hn::Zero(d);
  std::size_t i = 0;
  for (; i + step <= in.size(); i += step) least = hn::Min(least, load_bytes(d, &in[i]));
  bool good = hn::AllFalse(d, hn::Eq(least, hn::Set(d, -128)));
  for (; i < in.size(); ++i) good = good && in[i] != std::byte{0x80};
  return good;
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(add_int8);
HWY_EXPORT(valid_int8);

void add_int8(std::span<const std::byte> in, const Norms& norms, float scale, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(add_int8)(in, norms, scale, out);
}
bool valid_int8(std::span<const std::byte> in) { return HWY_DYNAMIC_DISPATCH(valid_int8)(in); }

}  // namespace sotto::kernels
#endif
