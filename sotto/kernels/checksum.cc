#include "sotto/kernels/checksum.h"

#include <libdeflate.h>

#include "sotto/kernels/crc.h"

namespace sotto::kernels {
namespace {

// Polynomials modulo the CRC's polynomial; the highest bit is the coefficient of 1.
constexpr std::uint32_t one = 0x80000000U;
constexpr std::uint32_t x = one >> 1;

std::uint32_t times_x(std::uint32_t p) { return (p >> 1) ^ ((p & 1U) != 0 ? 0xEDB88320U : 0U); }

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
  fold_crc32(~crc, bytes, folded);
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
