#include "sotto/kernels/bins.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "sotto/core/random.h"
#include "sotto/kernels/element.h"
#include "tests/kernels/targets.h"

namespace sotto::kernels {
namespace {

// Normal numbers of many scales, both zeros, denormals and the largest float.
std::vector<float> numbers(std::size_t count, std::uint64_t seed) {
  constexpr std::array special{0.0F, -0.0F, 1e-45F, -1e-45F, 3.4028235e38F, -3.4028235e38F, 1.0F, -1.0F};
  std::vector<float> values(count);
  Philox random(seed, Purpose::test);
  for (float& value : values) {
    value = random.below(8) == 0
                ? special[random.below(special.size())]
                : static_cast<float>(random.normal() * std::pow(10.0, random.below(seed % 3 == 0 ? 30 : 1)));
  }
  return values;
}

TEST(Bins, ExtremesAreThoseOfEachSign) {
  on_every_target([] {
    for (std::size_t count = 0; count < 200; ++count) {
      auto values = numbers(count, count);
      for (const int only : {0, 1, -1}) {
        for (float& value : values) {
          if (only != 0) value = std::copysign(value, static_cast<float>(only));
        }
        Extremes::Side sides[2];
        for (const float value : values) {
          const std::uint32_t bits = element::magnitude_bits(value);
          Extremes::Side& side = sides[value < 0 ? 1 : 0];
          if (bits == 0) continue;
          side.least = std::min(side.least, bits);
          side.most = std::max(side.most, bits);
        }
        const Extremes found = extremes(values);
        ASSERT_EQ(found.positive.least, sides[0].least) << count;
        ASSERT_EQ(found.positive.most, sides[0].most) << count;
        ASSERT_EQ(found.negative.least, sides[1].least) << count;
        ASSERT_EQ(found.negative.most, sides[1].most) << count;
      }
    }
    for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN()}) {
      for (const std::size_t at : {0U, 17U, 66U}) {
        auto values = numbers(67, 1);
        values[at] = bad;
        const Extremes found = extremes(values);
        EXPECT_GE(std::max(found.positive.most, found.negative.most), 0x7F800000U);
      }
    }
  });
}

TEST(Bins, KeysAreSorted) {
  Philox random(2, Purpose::test);
  for (const std::size_t count : {0U, 1U, 2U, 999U, 1000U, 1001U, 32768U}) {
    std::vector<std::uint32_t> keys(count), room(count);
    for (auto& key : keys) key = random.below(2) == 0 ? random.next() : random.below(300);
    auto sorted = keys;
    std::ranges::sort(sorted);
    sort_keys(keys, room);
    EXPECT_EQ(keys, sorted);
  }
}

// Compares the number of splits that each key reaches with a plain count, with a table and without one.
TEST(Bins, AreFoundForAllSplits) {
  Philox random(3, Purpose::test);
  BinSearch search;
  for (int trial = 0; trial < 200; ++trial) {
    const auto values = numbers(2000, static_cast<std::uint64_t>(trial));
    std::vector<std::uint32_t> splits;
    for (std::uint32_t i = random.below(256); i > 0; --i) {
      const std::uint32_t key = element::bin_key(values[random.below(2000)]);
      splits.push_back(random.below(2) == 0 ? key : key + random.below(2000));  // often many in a cell of the table
    }
    std::erase(splits, 0U);
    if (trial % 2 == 0 && splits.size() < 250) {
      splits.push_back(1);
      splits.push_back(element::sign_mask + 1);
    }
    std::ranges::sort(splits);
    splits.erase(std::unique(splits.begin(), splits.end()), splits.end());
    std::vector<std::uint16_t> expected(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint32_t key = element::bin_key(values[i]);
      expected[i] = static_cast<std::uint16_t>(
          std::ranges::count_if(splits, [key](std::uint32_t split) { return split <= key; }));
    }
    for (const std::size_t of : {10U, 100000U}) {
      search.set(splits, of);
      on_every_target([&] {
        std::vector<std::uint16_t> bins(values.size());
        search.find(values, bins);
        ASSERT_EQ(bins, expected) << splits.size() << " splits";
      });
    }
  }
}

}  // namespace
}  // namespace sotto::kernels
