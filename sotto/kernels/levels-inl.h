// Included once for every SIMD target: levels of a vector, for levels.cc and int8.cc.
#if defined(SOTTO_KERNELS_LEVELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SOTTO_KERNELS_LEVELS_INL_H_
#undef SOTTO_KERNELS_LEVELS_INL_H_
#else
#define SOTTO_KERNELS_LEVELS_INL_H_
#endif

#include "sotto/kernels/draws.h"
#include "sotto/kernels/element.h"
#include "sotto/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

// These mirror element.h. What is returned has the level in its lowest 16 bits, modulo 2^16.

HWY_INLINE VF position(VF value, const element::Grid& grid) {
  return hn::Mul(hn::Mul(value, set(grid.up)), set(grid.factor));
}

HWY_INLINE VU nearest_level(VF value, const element::Grid& grid) {
  return hn::BitCast(U32(), hn::Add(position(value, grid), set(element::rounder)));
}

HWY_INLINE VU random_level(VF value, const element::Grid& grid, VU number) {
  const VF dither = hn::Mul(hn::ConvertTo(F32(), hn::BitCast(I32(), number)), set(0x1p-32F));
  const VF moved = hn::Add(position(value, grid), dither);
  const VF inside = hn::Max(hn::Min(moved, set(grid.top)), set(-grid.top));
  return hn::BitCast(U32(), hn::Add(inside, set(element::rounder)));
}

HWY_INLINE VF from_level(VF level, float norm, float step) { return hn::Mul(set(norm), hn::Mul(level, set(step))); }

// The random numbers of values j .. j + lanes of a run: consecutive ones of the stream, or listed ones.
class Consecutive {
 public:
  explicit Consecutive(const Draws& draws)
      : first_(hn::Add(set_bits(draws.offset + draws.stream.k0), hn::Iota(U32(), 0))), k1_(set_bits(draws.stream.k1)) {}
  HWY_INLINE VU at(std::size_t j) const {
    return random_numbers(hn::Add(first_, set_bits(static_cast<std::uint32_t>(j))), k1_);
  }

 private:
  VU first_, k1_;
};

class Listed {
 public:
  explicit Listed(const Draws& draws)
      : first_(set_bits(draws.offset + draws.stream.k0)),
        k1_(set_bits(draws.stream.k1)),
        numbers_(draws.numbers.data()) {}
  HWY_INLINE VU at(std::size_t j) const { return random_numbers(hn::Add(first_, hn::LoadU(U32(), numbers_ + j)), k1_); }

 private:
  VU first_, k1_;
  const std::uint32_t* numbers_;
};

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#endif
