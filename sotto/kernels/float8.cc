#include "sotto/kernels/cast.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/float8.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include "sotto/kernels/element_bytes.h"
#include "sotto/kernels/levels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

// These functions mirror element_bytes.h, statement by statement.

template <class Format>
HWY_INLINE VU float8_bits(VF value) {
  using F = element::Float8<Format>;
  const VU sign = hn::And(hn::ShiftRight<24>(hn::BitCast(U32(), value)), set_bits(0x80));
  const VF clamped = hn::Min(hn::Abs(value), set(Format::largest));
  const VU m = hn::BitCast(U32(), clamped);
  const VU odd = hn::And(hn::ShiftRight<F::shift>(m), set_bits(1));
  const VU normal =
      hn::ShiftRight<F::shift>(hn::Add(hn::Add(m, set_bits((1U << (F::shift - 1)) - 1 - F::rebase)), odd));
  const VF rounder = hn::BitCast(F32(), set_bits(F::rounder));
  const VU small = hn::Sub(hn::BitCast(U32(), hn::Add(clamped, rounder)), set_bits(F::rounder));
  const auto is_small = hn::RebindMask(U32(), hn::Lt(clamped, set(F::least_normal)));
  return hn::Or(sign, hn::IfThenElse(is_small, small, normal));
}

template <class Format>
HWY_INLINE VF float8_value(VU byte) {
  using F = element::Float8<Format>;
  const VU sign = hn::ShiftLeft<24>(hn::And(byte, set_bits(0x80)));
  const VU m = hn::ShiftLeft<F::shift>(hn::And(byte, set_bits(0x7F)));
  const VF normal = hn::BitCast(F32(), hn::Add(m, set_bits(F::rebase)));
  const VF small = hn::Sub(hn::BitCast(F32(), hn::Add(m, set_bits(F::rebase + (1U << 23)))), set(F::least_normal));
  const auto is_small = hn::RebindMask(F32(), hn::Lt(hn::BitCast(I32(), m), hn::Set(I32(), 1 << 23)));
  return hn::Or(hn::IfThenElse(is_small, small, normal), hn::BitCast(F32(), sign));
}

template <class Format>
struct Float8Run {
  HWY_INLINE void operator()(std::size_t begin, std::size_t end, float unit) const {
    const element::Divider unit_divider(unit);
    std::size_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      const VF value = hn::Mul(hn::Mul(load_floats(values + i), set(unit_divider.up)), set(unit_divider.factor));
      store_bytes(U8(), hn::TruncateTo(U8(), float8_bits<Format>(value)), out + i);
    }
    for (; i < end; ++i) out[i] = static_cast<std::byte>(element::to_float8<Format>(unit_divider.divide(values[i])));
  }
  const float* values;
  std::byte* out;
};

template <class Format>
struct AddFloat8Run {
  HWY_INLINE void operator()(std::size_t begin, std::size_t end, float unit) const {
    const VF most = set(std::numeric_limits<float>::max());
    std::size_t i = begin;
    if (unit < element::large_unit) {
      for (; i + lanes <= end; i += lanes) accumulate(hn::Mul(value_at(i), set(unit)), set(scale), out + i);
    } else {
      for (; i + lanes <= end; i += lanes) {
        const VF value = hn::Mul(value_at(i), set(unit));
        accumulate(hn::Max(hn::Min(value, most), hn::Neg(most)), set(scale), out + i);
      }
    }
    for (; i < end; ++i) out[i] += scale * element::from_float8<Format>(load<std::uint8_t>(in, i), unit);
  }
  HWY_INLINE VF value_at(std::size_t i) const {
    return float8_value<Format>(hn::PromoteTo(U32(), load_bytes(U8(), in + i)));
  }
  const std::byte* in;
  float scale;
  float* out;
};

template <class Format>
bool all_numbers(std::span<const std::byte> in) {
  const hn::CappedTag<std::uint8_t, 64> d;
  const std::size_t step = hn::Lanes(d);
  const auto magnitude = hn::Set(d, 0x7F);
  auto most = hn::Zero(d);
  std::size_t i = 0;
  for (; i + step <= in.size(); i += step) most = hn::Max(most, hn::And(load_bytes(d, &in[i]), magnitude));
  const auto limit = hn::Set(d, Format::largest_bits);
  bool good = hn::AllTrue(d, hn::Eq(hn::Max(most, limit), limit));
  for (; i < in.size(); ++i) good = good && (std::to_integer<unsigned>(in[i]) & 0x7FU) <= Format::largest_bits;
  return good;
}

void to_e4m3(std::span<const float> values, const Norms& units, std::span<std::byte> out) {
  for_norms(units, values.size(), Float8Run<element::E4M3>{values.data(), out.data()});
}
void to_e5m2(std::span<const float> values, const Norms& units, std::span<std::byte> out) {
  for_norms(units, values.size(), Float8Run<element::E5M2>{values.data(), out.data()});
}
void add_e4m3(std::span<const std::byte> in, const Norms& units, float scale, std::span<float> out) {
  for_norms(units, out.size(), AddFloat8Run<element::E4M3>{in.data(), scale, out.data()});
}
void add_e5m2(std::span<const std::byte> in, const Norms& units, float scale, std::span<float> out) {
  for_norms(units, out.size(), AddFloat8Run<element::E5M2>{in.data(), scale, out.data()});
}
bool all_numbers_e4m3(std::span<const std::byte> in) { return all_numbers<element::E4M3>(in); }
bool all_numbers_e5m2(std::span<const std::byte> in) { return all_numbers<element::E5M2>(in); }

template <class Numbers>
struct PowerRun {
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
void to_powers_with(std::span<const float> values, const Norms& units, const Draws& draws, std::span<std::byte> out) {
  const Numbers numbers(draws);
  for_norms(units, values.size(), PowerRun<Numbers>{values.data(), draws, numbers, out.data()});
}

void to_powers(std::span<const float> values, const Norms& units, const Draws& draws, std::span<std::byte> out) {
  if (draws.numbers.empty()) {
    to_powers_with<Consecutive>(values, units, draws, out);
  } else {
    to_powers_with<Listed>(values, units, draws, out);
  }
}

struct AddPowerRun {
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
  for_norms(units, out.size(), AddPowerRun{in.data(), scale, out.data()});
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(to_e4m3);
HWY_EXPORT(to_e5m2);
HWY_EXPORT(add_e4m3);
HWY_EXPORT(add_e5m2);
HWY_EXPORT(all_numbers_e4m3);
HWY_EXPORT(all_numbers_e5m2);

void to_e4m3(std::span<const float> values, const Norms& units, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(to_e4m3)(values, units, out);
}
void to_e5m2(std::span<const float> values, const Norms& units, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(to_e5m2)(values, units, out);
}
void add_e4m3(std::span<const std::byte> in, const Norms& units, float scale, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(add_e4m3)(in, units, scale, out);
}
void add_e5m2(std::span<const std::byte> in, const Norms& units, float scale, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(add_e5m2)(in, units, scale, out);
}
bool all_numbers_e4m3(std::span<const std::byte> in) { return HWY_DYNAMIC_DISPATCH(all_numbers_e4m3)(in); }
bool all_numbers_e5m2(std::span<const std::byte> in) { return HWY_DYNAMIC_DISPATCH(all_numbers_e5m2)(in); }

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
