#include "sotto/kernels/power.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/power.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include "sotto/kernels/element_bytes.h"
#include "sotto/kernels/levels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

template <class Numbers>
struct EncodeRun {
  HWY_INLINE void operator()(std::size_t begin, std::size_t end, float unit) const {
    const float share = element::power_share(unit);
    std::size_t i = begin;
    for (auto rest = numbers.from(begin); i + lanes <= end; i += lanes) {
      const VU bits = hn::BitCast(U32(), hn::Mul(load_floats(values + i), set(share)));
      const VU magnitude = hn::And(bits, set_bits(~element::sign_mask));
      const VU power = hn::ShiftRight<23>(hn::Add(magnitude, hn::ShiftRight<9>(rest.next())));
      const VU sign = hn::And(hn::ShiftRight<24>(bits), set_bits(0x80));
      store_bytes(U8(), hn::TruncateTo(U8(), hn::Or(sign, power)), out + i);
    }
    for (; i < end; ++i) {
      out[i] = static_cast<std::byte>(element::to_power(values[i] * share, draws.stream.quick(draws.number(i))));
    }
  }
  const float* values;
  const Draws& draws;
  const Numbers& numbers;
  std::byte* out;
};

template <class Numbers>
void encode_with(std::span<const float> values, const Norms& units, const Draws& draws, std::span<std::byte> out) {
  const Numbers numbers(draws);
  for_norms(units, values.size(), EncodeRun<Numbers>{values.data(), draws, numbers, out.data()});
}

void to_powers(std::span<const float> values, const Norms& units, const Draws& draws, std::span<std::byte> out) {
  if (draws.numbers.empty()) {
    encode_with<Consecutive>(values, units, draws, out);
  } else {
    encode_with<Listed>(values, units, draws, out);
  }
}

struct AddRun {
  HWY_INLINE void operator()(std::size_t begin, std::size_t end, float unit) const {
    std::size_t i = begin;
    if (unit < element::largest_power) {
      for (; i + lanes <= end; i += lanes) accumulate(hn::Mul(power_at(i), set(2 * unit)), set(scale), out + i);
    } else {
      const VF most = set(std::numeric_limits<float>::max());
      for (; i + lanes <= end; i += lanes) {
        const VF value = hn::Mul(hn::Mul(power_at(i), set(2)), set(unit));
        accumulate(hn::Max(hn::Min(value, most), hn::Neg(most)), set(scale), out + i);
      }
    }
    for (; i < end; ++i) out[i] += scale * element::from_power(load<std::uint8_t>(in, i), unit);
  }
  HWY_INLINE VF power_at(std::size_t i) const {
    const VU byte = hn::PromoteTo(U32(), load_bytes(U8(), in + i));
    const VU sign = hn::ShiftLeft<24>(hn::And(byte, set_bits(0x80)));
    const VU power = hn::ShiftLeft<23>(hn::And(byte, set_bits(0x7F)));
    return hn::BitCast(F32(), hn::Or(sign, power));
  }
  const std::byte* in;
  float scale;
  float* out;
};

void add_powers(std::span<const std::byte> in, const Norms& units, float scale, std::span<float> out) {
  for_norms(units, out.size(), AddRun{in.data(), scale, out.data()});
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(to_powers);
HWY_EXPORT(add_powers);

void to_powers(std::span<const float> values, const Norms& units, const Draws& draws, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(to_powers)(values, units, draws, out);
}
void add_powers(std::span<const std::byte> in, const Norms& units, float scale, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(add_powers)(in, units, scale, out);
}

}  // namespace sotto::kernels
#endif
