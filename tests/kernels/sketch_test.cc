#include "sotto/kernels/sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "sotto/core/random.h"
#include "tests/kernels/targets.h"

namespace sotto::kernels {
namespace {

TEST(Hash64, IsThatOfSplitMix64) {
  // The first outputs of the generator as its authors published it, for two seeds.
  static_assert(hash64(0) == 0xE220A8397B1DCDAFULL);
  static_assert(hash64(1) == 0x6E789E6AA1B965F4ULL);
  static_assert(hash64(2) == 0x06C45D188009454FULL);
  static_assert(hash64(0, 1234567) == 6457827717110365317ULL);
  static_assert(hash64(1, 1234567) == 3203168211198807973ULL);
  EXPECT_EQ(hash64(~std::uint64_t{0}), 0U);  // key + 1 is 0
}

TEST(Hash64, PlacesAreTakenEvenlyByBothHalves) {
  constexpr std::size_t places = 100, keys = 100000;
  for (const unsigned shift : {0U, 32U}) {
    std::vector<int> taken(places);
    for (std::uint64_t key = 0; key < keys; ++key) {
      const std::size_t place = place_of(static_cast<std::uint32_t>(hash64(key, 7) >> shift), places);
      ASSERT_LT(place, places);
      ++taken[place];
    }
    double chi_square = 0;
    for (const int n : taken) chi_square += (n - 1000.0) * (n - 1000.0) / 1000.0;
    EXPECT_LT(chi_square, 99 + 5 * std::sqrt(2 * 99.0));
  }
}

TEST(Hash64, AnyBitOfTheKeyChangesHalfOfTheBits) {
  for (unsigned bit = 0; bit < 64; ++bit) {
    int changed = 0;
    for (std::uint64_t key = 0; key < 1000; ++key) {
      changed += std::popcount(hash64(key) ^ hash64(key ^ (std::uint64_t{1} << bit)));
    }
    EXPECT_NEAR(changed / 1000.0, 32, 1);  // the mean has a standard deviation of 4 / sqrt(1000)
  }
}

// Compares with maps of the levels put into each cell.
void expect_least_and_largest(std::size_t count) {
  Philox random(1, Purpose::test);
  for (unsigned rows = 1; rows <= MinMaxCells::most_rows; ++rows) {
    const std::size_t classes = 3;
    std::vector<std::uint16_t> class_of(count), levels(count), found(count);
    for (std::size_t j = 0; j < count; ++j) {
      class_of[j] = static_cast<std::uint16_t>(random.below(classes));
      levels[j] = static_cast<std::uint16_t>(random.below(100));
    }
    SCOPED_TRACE(std::to_string(count) + " values, " + std::to_string(rows) + " rows");
    MinMaxCells at{.rows = rows, .first = {0, rows * 50, rows * 150}, .columns = {50, 100, 7}};
    std::vector<std::uint16_t> cells(rows * 157, 100);
    const std::uint64_t first = std::uint64_t{1} << 33;
    insert_least(class_of, levels, at, first, cells.data());
    find_largest(class_of, at, first, cells.data(), found);

    std::map<std::pair<unsigned, std::size_t>, std::uint16_t> least;  // by row and cell
    const auto cell = [&](std::size_t j, unsigned r) {
      const std::uint64_t hash = hash64(first + j, r / 2) >> (r % 2 == 0 ? 0 : 32);
      return std::pair{r, 1000 * class_of[j] + place_of(static_cast<std::uint32_t>(hash), at.columns[class_of[j]])};
    };
    for (std::size_t j = 0; j < count; ++j) {
      for (unsigned r = 0; r < rows; ++r) {
        const auto [place, added] = least.emplace(cell(j, r), levels[j]);
        place->second = std::min(place->second, levels[j]);
      }
    }
    for (std::size_t j = 0; j < count; ++j) {
      std::uint16_t expected = 0;
      for (unsigned r = 0; r < rows; ++r) expected = std::max(expected, least.at(cell(j, r)));
      ASSERT_EQ(found[j], expected);
      ASSERT_LE(found[j], levels[j]);
    }
    for (const auto& [place, level] : least) {
      const auto c = place.second / 1000;
      EXPECT_EQ(cells[at.first[c] + place.first * at.columns[c] + place.second % 1000], level);
    }
  }
}

TEST(MinMax, CellsKeepTheLeastAndKeysFindTheLargest) {
  on_every_target([] {
    for (const std::size_t count : {1, 2, 7, 8, 9, 15, 1000, 1024, 1025, 3001}) expect_least_and_largest(count);
  });
}

}  // namespace

}  // namespace sotto::kernels
