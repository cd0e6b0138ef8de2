// Types and functions that several kernels share. Included once for every SIMD target, after highway.h (see its
// foreach_target.h).
#if defined(SOTTO_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SOTTO_KERNELS_SIMD_INL_H_
#undef SOTTO_KERNELS_SIMD_INL_H_
#else
#define SOTTO_KERNELS_SIMD_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "sotto/core/random.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// At most 16 floats per vector: a sum has as many lanes (reduce.h), and sign.cc packs as many signs at a time.
using F32 = hn::CappedTag<float, 16>;
using I32 = hn::Rebind<std::int32_t, F32>;
using U32 = hn::Rebind<std::uint32_t, F32>;
using U16 = hn::Rebind<std::uint16_t, F32>;  // with the lanes of F32, so half a vector
using U8 = hn::Rebind<std::uint8_t, F32>;
using VF = hn::Vec<F32>;
using VI = hn::Vec<I32>;
using VU = hn::Vec<U32>;
constexpr std::size_t lanes = hn::MaxLanes(F32());

// Loads and stores vectors at any address, whatever alignment their type needs.
template <class D>
HWY_INLINE hn::Vec<D> load_bytes(D d, const std::byte* from) {
  return hn::BitCast(d, hn::LoadU(hn::Repartition<std::uint8_t, D>(), reinterpret_cast<const std::uint8_t*>(from)));
}
template <class D>
HWY_INLINE void store_bytes(D, hn::Vec<D> v, std::byte* to) {
  const hn::Repartition<std::uint8_t, D> bytes;
  hn::StoreU(hn::BitCast(bytes, v), bytes, reinterpret_cast<std::uint8_t*>(to));
}

HWY_INLINE VF load_floats(const float* from) { return hn::LoadU(F32(), from); }
HWY_INLINE VF set(float value) { return hn::Set(F32(), value); }
HWY_INLINE VU set_bits(std::uint32_t value) { return hn::Set(U32(), value); }

// The bits of |v|.
HWY_INLINE VI magnitudes(VF v) { return hn::And(hn::BitCast(I32(), v), hn::Set(I32(), 0x7FFFFFFF)); }

// Prefetches the floats two pages ahead, which may lie past the end of a run. The processor's own prefetcher stops at
// the end of a page and while a loop computes; Intel processors would then wait for memory half of the time.
HWY_INLINE void prefetch_ahead(const float* at) {
  constexpr std::uintptr_t ahead = 8192;
  hwy::Prefetch(reinterpret_cast<const float*>(reinterpret_cast<std::uintptr_t>(at) + ahead));
}

// out += scale * value, not fused.
HWY_INLINE void accumulate(VF value, VF scale, float* out) {
  prefetch_ahead(out);
  hn::StoreU(hn::Add(hn::LoadU(F32(), out), hn::Mul(scale, value)), F32(), out);
}

// ElementStream::quick(i), where h = i + k0.
HWY_INLINE VU random_numbers(VU h, VU k1) {
  h = hn::Xor(h, hn::ShiftRight<16>(h));
  h = hn::Mul(h, set_bits(0x7feb352dU));
  h = hn::Xor(hn::Xor(h, hn::ShiftRight<15>(h)), k1);
  h = hn::Mul(h, set_bits(0x846ca68bU));
  return hn::Xor(h, hn::ShiftRight<16>(h));
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#endif
