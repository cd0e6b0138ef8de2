#include "sotto/kernels/checksum.h"

#include <libdeflate.h>

#define HWY_WANT_AVX3_DL  // carry-less products of 512 bits
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/checksum.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include "sotto/kernels/simd-inl.h"

#ifndef SOTTO_KERNELS_CHECKSUM_ONCE
#define SOTTO_KERNELS_CHECKSUM_ONCE
namespace sotto::kernels {

// Bytes folded to a few bytes `rest` with the same CRC-32 (zlib's polynomial, without inversion before and after). The
// shift register has the value `state` before the bytes, and 0 before `rest`.
struct Folded {
  std::size_t used = 0;   // how many bytes were folded; 0 on processors without carry-less products
  std::size_t bytes = 0;  // of `rest`
  alignas(64) std::byte rest[64];
};

// Polynomials modulo the CRC's polynomial; the highest bit is the coefficient of 1.
constexpr std::uint32_t one = 0x80000000U;

constexpr std::uint32_t times_x(std::uint32_t p) { return (p >> 1) ^ ((p & 1U) != 0 ? 0xEDB88320U : 0U); }

// x^n. The coefficient of x^0 is in the highest of 33 bits.
constexpr std::uint64_t power_of_x(std::size_t n) {
  std::uint32_t p = one;
  for (std::size_t i = 0; i < n; ++i) p = times_x(p);
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

// With vectors longer than 128 bits this is several times faster than a table or 128-bit carry-less products.
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

namespace {

constexpr std::uint32_t x = one >> 1;

std::uint32_t times(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (; a != 0; a <<= 1, b = times_x(b)) {
    if ((a & one) != 0) product ^= b;
  }
  return product;
}

}  // namespace

std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes) {
  Folded folded;
  HWY_DYNAMIC_DISPATCH(fold_crc32)(~crc, bytes, folded);
  // libdeflate inverts the register before and after.
  if (folded.used > 0) crc = libdeflate_crc32(~0U, folded.rest, folded.bytes);
  const auto rest = bytes.subspan(folded.used);
  return rest.empty() ? crc : libdeflate_crc32(crc, rest.data(), rest.size());
}

void JoinedCrc::add(std::uint32_t crc, std::size_t bytes) {
  // Each following byte multiplies by x^8.
  if (bytes != bytes_) {
    shift_ = one;
    std::uint32_t power = x;
    for (std::size_t bits = 8 * bytes; bits != 0; bits >>= 1, power = times(power, power)) {
      if ((bits & 1U) != 0) shift_ = times(shift_, power);
    }
    bytes_ = bytes;
  }
  value_ = times(value_, shift_) ^ crc;
}

}  // namespace sotto::kernels
#endif
