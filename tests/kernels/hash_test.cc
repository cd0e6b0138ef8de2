#include "sotto/kernels/hash.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

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

}  // namespace
}  // namespace sotto::kernels
