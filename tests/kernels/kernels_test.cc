// Compares kernels with slow, simple versions.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "sotto/core/random.h"
#include "sotto/kernels/bits.h"
#include "sotto/kernels/element.h"
#include "sotto/kernels/levels.h"
#include "sotto/kernels/reduce.h"
#include "sotto/kernels/run.h"
#include "sotto/kernels/select.h"
#include "sotto/kernels/sketch.h"
#include "sotto/kernels/vector.h"

namespace sotto::kernels {
namespace {

// One norm for all values.
struct One {
  explicit One(float norm) { store(bytes.data(), 0, norm); }
  operator Norms() const { return {bytes, 1U << 30U, 0}; }  // NOLINT(google-explicit-constructor)
  std::array<std::byte, sizeof(float)> bytes{};
};

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float largest = std::numeric_limits<float>::max();

std::vector<float> draw(std::size_t count, std::uint64_t seed) {
  std::vector<float> values(count);
  Philox random(seed, Purpose::test);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

TEST(Bits, EveryWidthAndLengthGoesThereAndBack) {
  Philox random(1, Purpose::test);
  for (unsigned width = 1; width <= 16; ++width) {
    for (std::size_t count = 0; count < 50; ++count) {
      std::vector<std::uint16_t> symbols(count);
      for (auto& symbol : symbols) symbol = static_cast<std::uint16_t>(random.below(1U << width));
      std::vector<std::byte> packed(packed_bytes(count, width));
      pack_bits(symbols, width, packed);
      for (std::size_t bit = 0; bit < 8 * packed.size(); ++bit) {
        const unsigned expected = bit < count * width ? (symbols[bit / width] >> (bit % width)) & 1U : 0U;
        ASSERT_EQ((std::to_integer<unsigned>(packed[bit / 8]) >> (bit % 8)) & 1U, expected);
      }
      std::vector<std::uint16_t> back(count);
      unpack_bits(packed, width, back);
      EXPECT_EQ(back, symbols);
    }
  }
}

TEST(Bits, WideSymbolsToo) {
  Philox random(2, Purpose::test);
  for (unsigned width = 1; width <= 32; ++width) {
    for (std::size_t count = 0; count < 20; ++count) {
      std::vector<std::uint32_t> symbols(count);
      for (auto& symbol : symbols) symbol = random.next() >> (32 - width);
      std::vector<std::byte> packed(packed_bytes(count, width));
      pack_bits(symbols, width, packed);
      for (std::size_t bit = 0; bit < 8 * packed.size(); ++bit) {
        const unsigned expected = bit < count * width ? (symbols[bit / width] >> (bit % width)) & 1U : 0U;
        ASSERT_EQ((std::to_integer<unsigned>(packed[bit / 8]) >> (bit % 8)) & 1U, expected);
      }
      std::vector<std::uint32_t> back(count);
      unpack_bits(packed, width, back);
      EXPECT_EQ(back, symbols);
    }
  }
}

TEST(Reduce, SumsAndMaximaOfAnyLength) {
  for (std::size_t count = 0; count < 70; ++count) {
    const auto values = draw(count, count);
    double sum = 0, squares = 0;
    float most = 0;
    for (const float x : values) {
      sum += std::abs(x);
      squares += static_cast<double>(x) * x;
      most = std::max(most, std::abs(x));
    }
    EXPECT_NEAR(sum_abs(values), sum, 1e-12 * sum);
    EXPECT_NEAR(sum_squares(values), squares, 1e-12 * squares);
    EXPECT_EQ(std::bit_cast<float>(max_abs_bits(values)), most);
  }
}

TEST(Reduce, FindsWhatIsNotFinite) {
  for (const float bad :
       {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN()}) {
    for (std::size_t at = 0; at < 40; ++at) {
      auto values = draw(40, 3);
      EXPECT_TRUE(all_finite(values));
      values[at] = bad;
      EXPECT_FALSE(all_finite(values));
      EXPECT_FALSE(std::isfinite(sum_abs(values)));
      EXPECT_FALSE(std::isfinite(sum_squares(values)));
    }
  }
  EXPECT_TRUE(std::isfinite(sum_squares(std::vector<float>(100, largest))));
}

TEST(Vector, AddScaleAxpy) {
  const auto a = draw(37, 4);
  auto b = draw(37, 5);
  const auto before = b;
  add(a, b);
  scale(2.0F, b);
  axpy(-2.0F, a, b);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(b[i], 2 * before[i], 1e-5);
}

TEST(Vector, ScatterAdd) {
  const std::vector<float> values{1, 2};
  const std::vector<std::uint32_t> indices{10, 13};
  std::vector<float> out(4, 0.5F);
  scatter_add(values, indices, 10, out);
  EXPECT_EQ(out, (std::vector<float>{1.5F, 0.5F, 0.5F, 2.5F}));
}

TEST(Levels, AreAtMostTheTopAndZerosStay) {
  const std::vector<float> values{1, -1, 0, -0.0F, 1e-30F, 0.5F};
  std::vector<std::uint16_t> symbols(values.size());
  for (std::uint32_t trial = 0; trial < 200; ++trial) {
    stochastic_levels(values, One(1), 7, {{trial, trial}, 0, {}}, symbols);
    EXPECT_EQ(symbols[0], 14);
    EXPECT_EQ(symbols[1], 13);
    EXPECT_EQ(symbols[2], 0);
    EXPECT_EQ(symbols[3], 0);
    EXPECT_EQ(symbols[4], 0);
    EXPECT_TRUE(symbols[5] == 6 || symbols[5] == 8);
  }
  stochastic_levels(std::vector<float>{0, -0.0F}, One(0), 7, {}, symbols);
  EXPECT_EQ(symbols[0] + symbols[1], 0);
}

TEST(Levels, AreRightOnAverage) {
  // Values at 3.3 and -0.1 of 7 levels. The mean of n draws has a standard deviation of at most 1 / (2 sqrt(n)).
  constexpr std::uint32_t draws = 100'000;
  for (const auto& [value, mean] : {std::pair{3.3F / 7, 3.3}, {-0.1F / 7, -0.1}}) {
    const std::vector<float> values(draws, value);
    std::vector<std::uint16_t> symbols(draws);
    stochastic_levels(values, One(1), 7, {{1, 2}, 0, {}}, symbols);
    std::vector<float> levels(draws);
    add_levels(symbols, One(7), 7, 1, levels);
    double sum = 0;
    for (const float level : levels) sum += level;
    EXPECT_NEAR(sum / draws, mean, 4 / (2 * std::sqrt(draws)));
  }
}

TEST(Levels, ListedNumbersDrawAsConsecutiveOnesDo) {
  const auto values = draw(100, 6);
  const ElementStream stream{11, 12};
  std::vector<std::uint16_t> whole(100), some(34);
  stochastic_levels(values, One(5), 3, {stream, 1000, {}}, whole);
  std::vector<float> picked;
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t i = 0; i < 100; i += 3) {
    picked.push_back(values[i]);
    numbers.push_back(i);
  }
  stochastic_levels(picked, One(5), 3, {stream, 1000, numbers}, some);
  for (std::size_t j = 0; j < some.size(); ++j) EXPECT_EQ(some[j], whole[3 * j]);
}

TEST(Int8, RoundsToNearestEven) {
  const std::vector<float> values{127, -127, 0.5F, 1.5F, -2.5F, 2.51F, -0.49F};
  std::vector<std::byte> bytes(values.size());
  nearest_levels(values, One(127), int8_top, bytes);
  std::vector<float> out(values.size());
  add_int8(bytes, One(127), 1, out);
  EXPECT_EQ(out, (std::vector<float>{127, -127, 0, 2, -2, 3, 0}));
  EXPECT_TRUE(valid_int8(bytes));
  bytes[3] = std::byte{0x80};
  EXPECT_FALSE(valid_int8(bytes));
}

TEST(UInt8, KeepsBothEndsOfAnyRange) {
  constexpr float most = std::numeric_limits<float>::max();
  for (const auto& [low, high] : {std::pair{-1.0F, 3.0F}, std::pair{-most, most}, std::pair{1e-45F, 3e-44F},
                                  std::pair{1000.0F, 1000.001F}, std::pair{-7.0F, -7.0F}, std::pair{-1e-20F, 0.0F}}) {
    const std::vector<float> values{low, high, low, high};
    std::vector<std::byte> ends(8), bytes(4);
    ASSERT_TRUE(interval_blocks(values, 4, ends));
    const Norms norms{ends, 4};
    to_uint8(values, norms, bytes);
    std::vector<float> out(4);
    add_uint8(bytes, norms, 1, out);
    EXPECT_EQ(out[0], low);
    EXPECT_EQ(out[1], high);
  }
}

TEST(UInt8, RoundsToNearestEven) {
  const std::vector<float> values{0, 255, 0.5F, 1.5F, 2.5F, 2.51F, 254.49F};
  std::vector<std::byte> ends(8), bytes(values.size());
  ASSERT_TRUE(interval_blocks(values, 100, ends));
  to_uint8(values, {ends, 100}, bytes);
  std::vector<float> out(values.size());
  add_uint8(bytes, {ends, 100}, 1, out);
  EXPECT_EQ(out, (std::vector<float>{0, 255, 0, 2, 2, 3, 254}));
}

TEST(Sign, PacksAndAddsFromAnyBit) {
  const auto values = draw(75, 7);
  std::vector<std::byte> bits(10);
  pack_signs(values, bits);
  for (std::size_t first = 0; first < 20; ++first) {
    std::vector<float> out(75 - first, 1.0F);
    add_signs(bits, first, 0.25F, out);
    for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], values[first + i] < 0 ? 0.75F : 1.25F);
  }
  EXPECT_EQ(std::to_integer<unsigned>(bits[9]) >> 3, 0U);  // nothing after the last value
}

TEST(Select, CollectsWhatReachesTheMagnitude) {
  for (const std::size_t count : {0, 1, 31, 32, 33, 500}) {
    const auto values = draw(count, 8);
    const float least = 1.2F;
    std::vector<std::uint32_t> found(count);
    found.resize(collect_magnitudes(values, std::bit_cast<std::uint32_t>(least), 5, found.data()));
    std::vector<std::uint32_t> expected;
    for (std::size_t i = 0; i < count; ++i) {
      if (std::abs(values[i]) >= least) expected.push_back(static_cast<std::uint32_t>(i) + 5);
    }
    EXPECT_EQ(found, expected);
  }
}

// Tiny fractions must not be rounded up too often, however near the random number is to its bounds; these numbers are
// the largest and the smallest of 2^32.
TEST(Levels, TinyFractionsAreNotRoundedUpTooOften) {
  for (const std::uint32_t number : {0x7FFFFFFFU, 0x7FFFFFC0U, 0x7FFFFF80U, 0x80000000U, 0x80000040U}) {
    for (const float fraction : {1e-38F, 0x1p-40F, 0x1p-26F}) {
      EXPECT_EQ(element::random_level(fraction, element::Grid(1, 1), number), 0);
      EXPECT_EQ(element::random_level(-fraction, element::Grid(1, 1), number), 0);
    }
    EXPECT_EQ(element::random_level(0x1p-22F, element::Grid(1, 1), number), number < 0x80000000U ? 1 : 0);
    EXPECT_EQ(element::random_level(-0x1p-22F, element::Grid(1, 1), number), number < 0x80000000U ? 0 : -1);
  }
}

TEST(Sketch, JoinsRowsByTheirMedianOrTheLeast) {
  for (const std::size_t count : {1, 3, 5, 7, 15}) {
    constexpr std::size_t n = 37;
    std::vector<float> rows = draw(count * n, 90 + count);
    std::vector<float> median(n), least(n);
    least_of_rows(rows, count, least);
    std::vector<std::vector<float>> columns(n);
    for (std::size_t i = 0; i < count * n; ++i) columns[i % n].push_back(rows[i]);
    median_of_rows(rows, count, median);
    for (std::size_t i = 0; i < n; ++i) {
      std::sort(columns[i].begin(), columns[i].end());
      EXPECT_EQ(median[i], columns[i][count / 2]);
      EXPECT_EQ(least[i], columns[i][0]);
    }
  }
}

TEST(Sketch, AddsToCellsInTheOrderOfElements) {
  const std::vector<float> values{1, -2, 4, -8};
  const std::vector<std::uint32_t> places{0, 1, 5, 4};  // columns 0 0 2 2; the second and third are subtracted
  std::vector<float> cells(3), above(3), below(3), out(4);
  add_signed(values, places, cells.data());
  EXPECT_EQ(cells, (std::vector<float>{3, 0, -12}));
  read_signed(cells.data(), places, out);
  EXPECT_EQ(out, (std::vector<float>{3, -3, 12, -12}));
  add_magnitudes(values, places, above.data(), below.data());
  EXPECT_EQ(above, (std::vector<float>{1, 0, 4}));
  EXPECT_EQ(below, (std::vector<float>{2, 0, 8}));
  read_cells(below.data(), places, out);
  EXPECT_EQ(out, (std::vector<float>{2, 2, 8, 8}));
}

}  // namespace
}  // namespace sotto::kernels
