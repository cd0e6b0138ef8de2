#include "sotto/kernels/crc.h"

#define HWY_WANT_AVX3_DL  // carry-less products of 512 bits
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/crc.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:

#include "sotto/kernels/simd-inl.h"

#ifndef SOTTO_KERNELS_CRC_CONSTANTS
#define SOTTO_KERNELS_CRC_CONSTANTS
namespace sotto::kernels {

// x^n modulo the polynomial of the CRC. The coefficient of x^0 is in the highest of 33 bits.
constexpr std::uint64_t power_of_x(std::size_t n) {
  std::uint32_t p = 0x80000000U;
  for (std::size_t i = 0; i < n; ++i) p = (p >> 1) ^ ((p & 1U) != 0 ? 0xEDB88320U : 0U);
  return std::uint64_t{p} << 1;
}

}  // namespace sotto::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR

void fold_crc32(std::uint32_t, std::span<const std::byte>, Folded& folded) { folded.used = folded.bytes = 0; }

#else

using Blocks = hn::CappedTag<std::uint64_t, 8>;  // of 128 bits
using VB = hn::Vec<Blocks>;

// The block times x^bits, as the sum of two products (Gopal et al., "Fast CRC computation for generic polynomials using
// PCLMULQDQ", Intel 2009).
template <std::size_t bits>
HWY_INLINE VB moved(VB blocks) {
  constexpr std::uint64_t low = power_of_x(bits + 32), high = power_of_x(bits - 32);
  HWY_ALIGN constexpr std::uint64_t factors[2] = {low, high};
  const VB factor = hn::LoadDup128(Blocks(), factors);
  return hn::Xor(hn::CLMulLower(blocks, factor), hn::CLMulUpper(blocks, factor));
}

void fold_crc32(std::uint32_t state, std::span<const std::byte> bytes, Folded& folded) {
  constexpr std::size_t size = sizeof(std::uint64_t) * hn::MaxLanes(Blocks());
  constexpr std::size_t chains = 4;  // independent chains of products
  constexpr std::size_t step = chains * size;
  folded.used = folded.bytes = 0;
  if (bytes.size() < 2 * step) return;

  VB sums[chains];
  for (std::size_t j = 0; j < chains; ++j) sums[j] = load_bytes(Blocks(), &bytes[j * size]);
  HWY_ALIGN std::uint64_t start[hn::MaxLanes(Blocks())] = {state};
  sums[0] = hn::Xor(sums[0], hn::Load(Blocks(), start));
  std::size_t i = step;
  for (; i + step <= bytes.size(); i += step) {
    for (std::size_t j = 0; j < chains; ++j) {
      sums[j] = hn::Xor(moved<8 * step>(sums[j]), load_bytes(Blocks(), &bytes[i + j * size]));
    }
  }
  VB sum = sums[0];
  for (std::size_t j = 1; j < chains; ++j) sum = hn::Xor(moved<8 * size>(sum), sums[j]);
  store_bytes(Blocks(), sum, folded.rest);
  folded.used = i;
  folded.bytes = size;
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(fold_crc32);

void fold_crc32(std::uint32_t state, std::span<const std::byte> bytes, Folded& folded) {
  HWY_DYNAMIC_DISPATCH(fold_crc32)(state, bytes, folded);
}

}  // namespace sotto::kernels
#endif
