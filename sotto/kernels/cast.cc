#include "sotto/kernels/cast.h"

#include <bit>
#include <limits>

#include "sotto/kernels/load.h"

namespace sotto::kernels {
namespace {

constexpr std::uint32_t sign_mask = 0x80000000U;
constexpr float largest = std::numeric_limits<float>::max();

inline std::uint16_t f16_bits(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits & sign_mask) >> 16;
  const float magnitude = std::bit_cast<float>(bits & ~sign_mask);
  const float clamped = magnitude < 65504.0F ? magnitude : 65504.0F;
  const std::uint32_t m = std::bit_cast<std::uint32_t>(clamped);
  // Normal: the exponent is rebased by 112, and the 13 bits that go are rounded, ties to the even neighbour.
  const std::uint32_t normal = (m - (112U << 23) + 0xFFFU + ((m >> 13) & 1U)) >> 13;
  // Below 2^-14: adding 1/2 leaves multiples of 2^-24 in the low bits of the sum, rounded by the addition itself.
  const std::uint32_t small = std::bit_cast<std::uint32_t>(clamped + 0.5F) - 0x3F000000U;
  return static_cast<std::uint16_t>(sign | (m < 0x38800000U ? small : normal));
}

inline float f16_value(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t m = static_cast<std::uint32_t>(half & 0x7FFFU) << 13;
  // The largest exponent is that of infinity and NaN in both formats.
  const float normal = std::bit_cast<float>(m + (m < (31U << 23) ? 112U << 23 : 224U << 23));
  // A subnormal is read as a normal number of the next exponent, and 2^-14 is taken off again: exact.
  const float small = std::bit_cast<float>(m + (113U << 23)) - 0x1p-14F;
  const float value = m < (1U << 23) ? small : normal;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
}

inline std::uint16_t bf16_bits(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits & sign_mask) >> 16;
  const std::uint32_t m = bits & ~sign_mask;
  const std::uint32_t rounded = (m + 0x7FFFU + ((m >> 16) & 1U)) >> 16;
  return static_cast<std::uint16_t>(sign | (rounded < 0x7F7FU ? rounded : 0x7F7FU));
}

inline float bf16_value(std::uint16_t half) { return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16); }

// Whether no element has all the bits of `exponent` set. Counting, instead of leaving early, becomes SIMD.
template <class T>
bool all_finite(std::span<const std::byte> in, T exponent) {
  const std::size_t count = in.size() / sizeof(T);
  T bad = 0;
  for (std::size_t i = 0; i < count; ++i) bad |= static_cast<T>((load<T>(in.data(), i) & exponent) == exponent);
  return bad == 0;
}

}  // namespace

void to_f16(std::span<const float> values, float a, float b, std::span<std::byte> out) {
  for (std::size_t i = 0; i < values.size(); ++i) store(out.data(), i, f16_bits(values[i] * a * b));
}

void add_f16(std::span<const std::byte> in, float unit, float scale, std::span<float> out) {
  const float most = unit > 1 ? largest : std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float value = f16_value(load<std::uint16_t>(in.data(), i)) * unit;
    const float below = value < most ? value : most;  // std::min would keep this from becoming SIMD
    out[i] += scale * (below > -most ? below : -most);
  }
}

bool all_finite_f16(std::span<const std::byte> in) { return all_finite<std::uint16_t>(in, 0x7C00U); }

void to_bf16(std::span<const float> values, float scale, std::span<std::byte> out) {
  for (std::size_t i = 0; i < values.size(); ++i) store(out.data(), i, bf16_bits(values[i] * scale));
}

void add_bf16(std::span<const std::byte> in, float scale, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] += scale * bf16_value(load<std::uint16_t>(in.data(), i));
}

bool all_finite_bf16(std::span<const std::byte> in) { return all_finite<std::uint16_t>(in, 0x7F80U); }

void to_f32(std::span<const float> values, float scale, std::span<std::byte> out) {
  for (std::size_t i = 0; i < values.size(); ++i) store(out.data(), i, values[i] * scale);
}

void add_f32(std::span<const std::byte> in, float scale, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] += scale * load<float>(in.data(), i);
}

bool all_finite_f32(std::span<const std::byte> in) { return all_finite<std::uint32_t>(in, 0x7F800000U); }

}  // namespace sotto::kernels
