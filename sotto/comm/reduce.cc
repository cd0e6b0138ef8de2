#include <bit>
#include <cstdint>

#include "sotto/comm/communicator.h"

namespace sotto {
namespace {

struct F16 {
  std::uint16_t bits;
};
struct BF16 {
  std::uint16_t bits;
};

float widen(F16 half) {
  const std::uint32_t sign = (half.bits & 0x8000U) << 16;
  const std::uint32_t magnitude = half.bits & 0x7FFFU;
  // After the shift the exponent is 112 too small; the multiplication corrects this, for denormals too.
  std::uint32_t bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112F);
  if (magnitude >= 0x7C00U) bits |= 0x7F800000U;  // infinity, NaN
  return std::bit_cast<float>(sign | bits);
}

void narrow(float value, F16& half) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) {
    magnitude = 0x7E00U;  // NaN
  } else if (magnitude >= 0x477FF000U) {
    magnitude = 0x7C00U;  // 65520 and more round to infinity
  } else if (magnitude < 0x38800000U) {
    // Halves below 2^-14 are multiples of 2^-24, like floats in [0.5, 1), so the addition rounds.
    magnitude = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000U;
  } else {
    magnitude = (magnitude + 0xFFFU + ((magnitude >> 13) & 1U) - 0x38000000U) >> 13;
  }
  half.bits = static_cast<std::uint16_t>(sign | magnitude);
}

float widen(BF16 half) { return std::bit_cast<float>(static_cast<std::uint32_t>(half.bits) << 16); }

void narrow(float value, BF16& half) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  half.bits = static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40U : (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

template <class T>
T widen(T value) {
  return value;
}
template <class T>
void narrow(T value, T& out) {
  out = value;
}

template <class T, class Combine>
void each(std::span<std::byte> into, std::span<const std::byte> from, Combine combine) {
  T* const a = reinterpret_cast<T*>(into.data());
  const T* const b = reinterpret_cast<const T*>(from.data());
  const std::size_t count = into.size() / sizeof(T);
  for (std::size_t i = 0; i < count; ++i) narrow(combine(widen(a[i]), widen(b[i])), a[i]);
}

template <class T>
void reduce(std::span<std::byte> into, std::span<const std::byte> from, ReduceOp op) {
  using Wide = decltype(widen(T{}));
  switch (op) {
    case ReduceOp::sum: return each<T>(into, from, [](Wide a, Wide b) { return static_cast<Wide>(a + b); });
    // `x != x` is true only for NaN.
    case ReduceOp::min: return each<T>(into, from, [](Wide a, Wide b) { return b < a || b != b ? b : a; });
    case ReduceOp::max: return each<T>(into, from, [](Wide a, Wide b) { return b > a || b != b ? b : a; });
  }
}

}  // namespace

void reduce_into(std::span<std::byte> into, std::span<const std::byte> from, DType type, ReduceOp op) {
  const bool sum = op == ReduceOp::sum;
  switch (type) {
    case DType::f32: return reduce<float>(into, from, op);
    case DType::f64: return reduce<double>(into, from, op);
    case DType::f16: return reduce<F16>(into, from, op);
    case DType::bf16: return reduce<BF16>(into, from, op);
    case DType::u8: return reduce<std::uint8_t>(into, from, op);
    // Unsigned sums wrap, and have the same bits as signed sums.
    case DType::i32: return sum ? reduce<std::uint32_t>(into, from, op) : reduce<std::int32_t>(into, from, op);
    case DType::i64: return sum ? reduce<std::uint64_t>(into, from, op) : reduce<std::int64_t>(into, from, op);
  }
}

}  // namespace sotto
