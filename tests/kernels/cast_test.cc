// Compares casts to 16 bits with their definitions.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "sotto/kernels/bits.h"
#include "sotto/kernels/cast.h"

namespace sotto::kernels {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float largest = std::numeric_limits<float>::max();

// The value of a half, from its definition.
double half_value(unsigned half) {
  const unsigned exponent = (half >> 10) & 31U;
  const double fraction = half & 1023U;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, static_cast<int>(exponent) - 25);
  return (half & 0x8000U) != 0 ? -magnitude : magnitude;
}

TEST(Cast, EveryHalfIsReadRight) {
  for (unsigned half = 0; half < 0x10000U; ++half) {
    std::vector<std::byte> bytes(2);
    store(bytes.data(), 0, static_cast<std::uint16_t>(half));
    const bool finite = (half & 0x7C00U) != 0x7C00U;
    ASSERT_EQ(all_finite_f16(bytes), finite);
    if (!finite) continue;
    std::vector<float> out(1);
    add_f16(bytes, 1, 1, out);
    ASSERT_EQ(out[0], half_value(half));
    to_f16(out, 1, 1, bytes);
    ASSERT_EQ(load<std::uint16_t>(bytes.data(), 0), half == 0x8000U ? 0U : half);  // 0 + -0 is 0
  }
}

TEST(Cast, HalvesAreRoundedToNearestEven) {
  // Between two neighbours, the middle is rounded to the even one, and a value off the middle to the nearer one.
  for (unsigned half = 0; half < 0x7BFFU; ++half) {
    const double low = half_value(half);
    const double high = half_value(half + 1);
    const auto middle = static_cast<float>((low + high) / 2);
    const std::vector<float> values{middle, std::nextafter(middle, 0.0F), std::nextafter(middle, infinity), -middle};
    std::vector<std::byte> bytes(8);
    to_f16(values, 1, 1, bytes);
    const unsigned even = half % 2 == 0 ? half : half + 1;
    ASSERT_EQ(load<std::uint16_t>(bytes.data(), 0), even);
    ASSERT_EQ(load<std::uint16_t>(bytes.data(), 1), half);
    ASSERT_EQ(load<std::uint16_t>(bytes.data(), 2), half + 1);
    ASSERT_EQ(load<std::uint16_t>(bytes.data(), 3), even | 0x8000U);
  }
}

TEST(Cast, HalvesSaturate) {
  const std::vector<float> values{65504, 65519, 65520, 1e30F, -1e30F, largest};
  std::vector<std::byte> bytes(2 * values.size());
  to_f16(values, 1, 1, bytes);
  std::vector<float> out(values.size());
  add_f16(bytes, 1, 1, out);
  EXPECT_EQ(out, (std::vector<float>{65504, 65504, 65504, 65504, -65504, 65504}));
  out.assign(out.size(), 0);
  add_f16(bytes, 0x1p113F, 1, out);
  EXPECT_EQ(out, (std::vector<float>{largest, largest, largest, largest, -largest, largest}));
}

TEST(Cast, HalvesThatAreNotFiniteStaySo) {
  std::vector<std::byte> bytes(8);
  for (const auto& [i, half] :
       {std::pair<std::size_t, std::uint16_t>{0, 0x7C00}, {1, 0xFC00}, {2, 0x7E00}, {3, 0x7BFF}}) {
    store(bytes.data(), i, half);
  }
  std::vector<float> out(4);
  add_f16(bytes, 1, 0.5F, out);
  EXPECT_EQ(out[0], infinity);
  EXPECT_EQ(out[1], -infinity);
  EXPECT_FALSE(std::isfinite(out[2]));
  EXPECT_EQ(out[3], 32752);
}

TEST(Cast, Bfloat16IsRoundedToNearestEvenAndSaturates) {
  for (std::uint32_t half = 0; half < 0x7F7FU; half += 7) {
    const std::uint32_t low = half << 16;
    const std::vector<float> values{std::bit_cast<float>(low + 0x7FFFU), std::bit_cast<float>(low + 0x8000U),
                                    std::bit_cast<float>(low + 0x8001U)};
    std::vector<std::byte> bytes(6);
    to_bf16(values, 1, bytes);
    ASSERT_EQ(load<std::uint16_t>(bytes.data(), 0), half);
    ASSERT_EQ(load<std::uint16_t>(bytes.data(), 1), half % 2 == 0 ? half : half + 1);
    ASSERT_EQ(load<std::uint16_t>(bytes.data(), 2), half + 1);
  }
  std::vector<std::byte> bytes(4);
  to_bf16(std::vector<float>{largest, -largest}, 1, bytes);
  EXPECT_EQ(load<std::uint16_t>(bytes.data(), 0), 0x7F7FU);
  EXPECT_EQ(load<std::uint16_t>(bytes.data(), 1), 0xFF7FU);
}

}  // namespace
}  // namespace sotto::kernels
