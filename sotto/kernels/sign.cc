#include "sotto/kernels/sign.h"

#include <bit>
#include <cstdint>

namespace sotto::kernels {
namespace {

inline float with_sign(float magnitude, unsigned bit) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) ^ (bit << 31));
}

inline unsigned bit_at(std::span<const std::byte> in, std::size_t i) {
  return (std::to_integer<unsigned>(in[i / 8]) >> (i % 8)) & 1U;
}

}  // namespace

void pack_signs(std::span<const float> values, std::span<std::byte> out) {
  const std::size_t whole = values.size() / 8;
  for (std::size_t i = 0; i < whole; ++i) {
    unsigned byte = 0;
    for (unsigned j = 0; j < 8; ++j) byte |= static_cast<unsigned>(values[8 * i + j] < 0.0F) << j;
    out[i] = static_cast<std::byte>(byte);
  }
  if (whole < out.size()) {
    unsigned byte = 0;
    for (std::size_t i = 8 * whole; i < values.size(); ++i) byte |= static_cast<unsigned>(values[i] < 0.0F) << (i % 8);
    out[whole] = static_cast<std::byte>(byte);
  }
}

void add_signs(std::span<const std::byte> in, std::size_t first, float magnitude, std::span<float> out) {
  std::size_t i = 0;
  for (; i < out.size() && (first + i) % 8 != 0; ++i) out[i] += with_sign(magnitude, bit_at(in, first + i));
  for (; i + 8 <= out.size(); i += 8) {
    const unsigned byte = std::to_integer<unsigned>(in[(first + i) / 8]);
    for (unsigned j = 0; j < 8; ++j) out[i + j] += with_sign(magnitude, (byte >> j) & 1U);
  }
  for (; i < out.size(); ++i) out[i] += with_sign(magnitude, bit_at(in, first + i));
}

}  // namespace sotto::kernels
