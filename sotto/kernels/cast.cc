#include "sotto/kernels/cast.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/cast.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include "sotto/kernels/bits.h"
#include "sotto/kernels/element.h"
#include "sotto/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

// These functions mirror element.h, statement by statement. Exception: some processors convert binary16 themselves.
// They round in the same way, and get only values in range.

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

using F16 = hn::Rebind<hwy::float16_t, F32>;

HWY_INLINE void store_f16(VF value, std::byte* out) {
  const VF inside = hn::Max(hn::Min(value, set(65504.0F)), set(-65504.0F));
  store_bytes(U16(), hn::BitCast(U16(), hn::DemoteTo(F16(), inside)), out);
}

HWY_INLINE VF load_f16(const std::byte* in) { return hn::PromoteTo(F32(), hn::BitCast(F16(), load_bytes(U16(), in))); }

#else

HWY_INLINE VU f16_bits(VF value) {
  const VU bits = hn::BitCast(U32(), value);
  const VU sign = hn::ShiftRight<16>(hn::And(bits, set_bits(element::sign_mask)));
  const VF magnitude = hn::Abs(value);
  const VF clamped = hn::IfThenElse(hn::Lt(magnitude, set(65504.0F)), magnitude, set(65504.0F));
  const VU m = hn::BitCast(U32(), clamped);
  const VU odd = hn::And(hn::ShiftRight<13>(m), set_bits(1));
  const VU normal = hn::ShiftRight<13>(hn::Add(hn::Add(m, set_bits(0xFFFU - (112U << 23))), odd));
  const VU small = hn::Sub(hn::BitCast(U32(), hn::Add(clamped, set(0.5F))), set_bits(0x3F000000U));
  const auto is_small = hn::Lt(clamped, set(0x1p-14F));
  return hn::Or(sign, hn::IfThenElse(hn::RebindMask(U32(), is_small), small, normal));
}

HWY_INLINE VF f16_value(VU half) {
  const VU sign = hn::ShiftLeft<16>(hn::And(half, set_bits(0x8000U)));
  const VU m = hn::ShiftLeft<13>(hn::And(half, set_bits(0x7FFFU)));
  const VI signed_m = hn::BitCast(I32(), m);
  const auto infinite = hn::Gt(signed_m, hn::Set(I32(), (31 << 23) - 1));
  const VU rebased = hn::Add(m, set_bits(112U << 23));
  const VU normal = hn::Add(rebased, hn::IfThenElseZero(hn::RebindMask(U32(), infinite), set_bits(112U << 23)));
  const VF small = hn::Sub(hn::BitCast(F32(), hn::Add(m, set_bits(113U << 23))), set(0x1p-14F));
  const auto is_small = hn::RebindMask(U32(), hn::Lt(signed_m, hn::Set(I32(), 1 << 23)));
  return hn::BitCast(F32(), hn::Or(sign, hn::IfThenElse(is_small, hn::BitCast(U32(), small), normal)));
}

HWY_INLINE void store_f16(VF value, std::byte* out) { store_bytes(U16(), hn::TruncateTo(U16(), f16_bits(value)), out); }

HWY_INLINE VF load_f16(const std::byte* in) { return f16_value(hn::PromoteTo(U32(), load_bytes(U16(), in))); }

#endif

// Saturates before rounding. Saturating afterwards would give the same result, because the largest bfloat16 is a float.
// The sign is handled separately.
HWY_INLINE VU bf16_bits(VF value) {
  const VF most = set(0x1.fep127F);
  const VU bits = hn::BitCast(U32(), hn::Max(hn::Min(value, most), hn::Neg(most)));
  const VU odd = hn::And(hn::ShiftRight<16>(bits), set_bits(1));
  return hn::ShiftRight<16>(hn::Add(hn::Add(bits, set_bits(0x7FFFU)), odd));
}

HWY_INLINE VU load_halves(const std::byte* in) { return hn::PromoteTo(U32(), load_bytes(U16(), in)); }
HWY_INLINE void store_halves(VU halves, std::byte* out) { store_bytes(U16(), hn::TruncateTo(U16(), halves), out); }

void to_f16(std::span<const float> values, float a, float b, std::span<std::byte> out) {
  std::size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) {
    store_f16(hn::Mul(hn::Mul(load_floats(&values[i]), set(a)), set(b)), &out[2 * i]);
  }
  for (; i < values.size(); ++i) store(out.data(), i, element::to_f16(values[i] * a * b));
}

void add_f16(std::span<const std::byte> in, float unit, float scale, std::span<float> out) {
  const VF most = set(std::numeric_limits<float>::max());
  const VF least = hn::Neg(most);
  std::size_t i = 0;
  if (unit > 1) {
    for (; i + lanes <= out.size(); i += lanes) {
      const VF value = hn::Mul(load_f16(&in[2 * i]), set(unit));
      const VF below = hn::IfThenElse(hn::Lt(value, most), value, most);
      accumulate(hn::IfThenElse(hn::Gt(below, least), below, least), set(scale), &out[i]);
    }
  } else {
    for (; i + lanes <= out.size(); i += lanes) {
      accumulate(hn::Mul(load_f16(&in[2 * i]), set(unit)), set(scale), &out[i]);
    }
  }
  for (; i < out.size(); ++i) out[i] += scale * element::from_f16(load<std::uint16_t>(in.data(), i), unit);
}

void to_bf16(std::span<const float> values, float scale, std::span<std::byte> out) {
  std::size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) {
    store_halves(bf16_bits(hn::Mul(load_floats(&values[i]), set(scale))), &out[2 * i]);
  }
  for (; i < values.size(); ++i) store(out.data(), i, element::to_bf16(values[i] * scale));
}

void add_bf16(std::span<const std::byte> in, float scale, std::span<float> out) {
  std::size_t i = 0;
  for (; i + lanes <= out.size(); i += lanes) {
    accumulate(hn::BitCast(F32(), hn::ShiftLeft<16>(load_halves(&in[2 * i]))), set(scale), &out[i]);
  }
  for (; i < out.size(); ++i) out[i] += scale * element::from_bf16(load<std::uint16_t>(in.data(), i));
}

void to_f32(std::span<const float> values, float scale, std::span<std::byte> out) {
  std::size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) {
    store_bytes(F32(), hn::Mul(load_floats(&values[i]), set(scale)), &out[4 * i]);
  }
  for (; i < values.size(); ++i) store(out.data(), i, values[i] * scale);
}

void add_f32(std::span<const std::byte> in, float scale, std::span<float> out) {
  std::size_t i = 0;
  for (; i + lanes <= out.size(); i += lanes) accumulate(load_bytes(F32(), &in[4 * i]), set(scale), &out[i]);
  for (; i < out.size(); ++i) out[i] += scale * load<float>(in.data(), i);
}

// Whether no element has all bits of `exponent` set. It uses signed maxima, which every vector unit has.
template <class T>
bool none_has(std::span<const std::byte> in, T exponent) {
  const hn::CappedTag<T, 64 / sizeof(T)> d;
  const std::size_t step = hn::Lanes(d);
  const std::size_t count = in.size() / sizeof(T);
  const auto wanted = hn::Set(d, exponent);
  auto most = hn::Zero(d);
  std::size_t i = 0;
  for (; i + step <= count; i += step) {
    most = hn::Max(most, hn::And(load_bytes(d, &in[i * sizeof(T)]), wanted));
  }
  T last = 0;
  for (; i < count; ++i) {
    const auto bits = static_cast<T>(load<T>(in.data(), i) & exponent);
    last = bits > last ? bits : last;
  }
  return last != exponent && hn::AllFalse(d, hn::Eq(most, wanted));
}

bool all_finite_f16(std::span<const std::byte> in) { return none_has<std::int16_t>(in, 0x7C00); }
bool all_finite_bf16(std::span<const std::byte> in) { return none_has<std::int16_t>(in, 0x7F80); }
bool all_finite_f32(std::span<const std::byte> in) { return none_has<std::int32_t>(in, 0x7F800000); }

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(to_f16);
HWY_EXPORT(add_f16);
HWY_EXPORT(all_finite_f16);
HWY_EXPORT(to_bf16);
HWY_EXPORT(add_bf16);
HWY_EXPORT(all_finite_bf16);
HWY_EXPORT(to_f32);
HWY_EXPORT(add_f32);
HWY_EXPORT(all_finite_f32);

void to_f16(std::span<const float> values, float a, float b, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(to_f16)(values, a, b, out);
}
void add_f16(std::span<const std::byte> in, float unit, float scale, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(add_f16)(in, unit, scale, out);
}
bool all_finite_f16(std::span<const std::byte> in) { return HWY_DYNAMIC_DISPATCH(all_finite_f16)(in); }

void to_bf16(std::span<const float> values, float scale, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(to_bf16)(values, scale, out);
}
void add_bf16(std::span<const std::byte> in, float scale, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(add_bf16)(in, scale, out);
}
bool all_finite_bf16(std::span<const std::byte> in) { return HWY_DYNAMIC_DISPATCH(all_finite_bf16)(in); }

void to_f32(std::span<const float> values, float scale, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(to_f32)(values, scale, out);
}
void add_f32(std::span<const std::byte> in, float scale, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(add_f32)(in, scale, out);
}
bool all_finite_f32(std::span<const std::byte> in) { return HWY_DYNAMIC_DISPATCH(all_finite_f32)(in); }

}  // namespace sotto::kernels
#endif
