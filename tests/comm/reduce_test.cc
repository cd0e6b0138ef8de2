#include "sotto/comm/communicator.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace sotto {
namespace {

template <class T>
T reduced(T a, T b, DType type, ReduceOp op = ReduceOp::sum) {
  reduce_into(std::as_writable_bytes(std::span(&a, 1)), std::as_bytes(std::span(&b, 1)), type, op);
  return a;
}

// The value of 16 bits by the definition: sign, exponent, fraction.
double value_of(std::uint16_t bits, int fraction_bits, int bias) {
  const int exponent = (bits & 0x7FFF) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 2 * bias + 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  const double scaled = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
  return sign * std::ldexp(scaled, std::max(exponent, 1) - bias - fraction_bits);
}

// The nearest 16-bit value; of two that are equally near, the even one.
std::uint16_t nearest(double value, int fraction_bits, int bias) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(value);
  const int largest = ((2 * bias + 1) << fraction_bits) - 1;
  int low = 0;
  int high = largest + 1;  // infinity, in the place of the next value
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (value_of(static_cast<std::uint16_t>(middle), fraction_bits, bias) <= magnitude ? low : high) = middle;
  }
  const double below = value_of(static_cast<std::uint16_t>(low), fraction_bits, bias);
  const double above = low == largest ? 2 * below - value_of(static_cast<std::uint16_t>(low - 1), fraction_bits, bias)
                                      : value_of(static_cast<std::uint16_t>(high), fraction_bits, bias);
  const double left = magnitude - below;
  const double right = above - magnitude;
  const int chosen = left < right || (left == right && low % 2 == 0) ? low : high;
  return static_cast<std::uint16_t>(sign | chosen);
}

void check_sums(DType type, int fraction_bits, int bias) {
  std::uint32_t state = 1;
  for (int bits = 0; bits < 0x10000; ++bits) {
    const auto a = static_cast<std::uint16_t>(bits);
    EXPECT_EQ(std::isnan(value_of(a, fraction_bits, bias)),
              std::isnan(value_of(reduced(a, std::uint16_t{0}, type), fraction_bits, bias)));
    for (int i = 0; i < 4; ++i) {
      state = state * 1664525U + 1013904223U;
      // Twice a value of about the same size, twice any value.
      const auto b = static_cast<std::uint16_t>(i < 2 ? (bits ^ (state >> 18 & 0x83FF)) : state >> 16);
      const double sum = static_cast<double>(static_cast<float>(value_of(a, fraction_bits, bias)) +
                                             static_cast<float>(value_of(b, fraction_bits, bias)));
      const std::uint16_t got = reduced(a, b, type);
      if (std::isnan(sum)) {
        EXPECT_TRUE(std::isnan(value_of(got, fraction_bits, bias)));
      } else if (std::isinf(sum)) {
        EXPECT_EQ(value_of(got, fraction_bits, bias), sum);
      } else {
        ASSERT_EQ(got, nearest(sum, fraction_bits, bias)) << a << " + " << b << " = " << sum;
      }
    }
  }
}

TEST(Reduce, HalvesAreAddedAsFloatsAndRounded) { check_sums(DType::f16, 10, 15); }
TEST(Reduce, BrainFloatsAreAddedAsFloatsAndRounded) { check_sums(DType::bf16, 7, 127); }

TEST(Reduce, IntegersWrap) {
  EXPECT_EQ(reduced(std::numeric_limits<std::int32_t>::max(), 1, DType::i32), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(reduced(std::numeric_limits<std::int64_t>::min(), std::int64_t{-1}, DType::i64),
            std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(reduced(std::uint8_t{200}, std::uint8_t{100}, DType::u8), 44);
  EXPECT_EQ(reduced(-1, 1, DType::i32, ReduceOp::min), -1);
  EXPECT_EQ(reduced(std::int64_t{-1}, std::int64_t{1}, DType::i64, ReduceOp::max), 1);
}

TEST(Reduce, NaNWins) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max}) {
    EXPECT_TRUE(std::isnan(reduced(nan, 1.0F, DType::f32, op)));
    EXPECT_TRUE(std::isnan(reduced(1.0F, nan, DType::f32, op)));
    EXPECT_TRUE(std::isnan(reduced(1.0, std::numeric_limits<double>::quiet_NaN(), DType::f64, op)));
  }
}

}  // namespace
}  // namespace sotto
