#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "sotto/codec/quantise/cluster_training.h"

namespace sotto::testing {
namespace {

// The entropies and shares that decide the sizes of clusters have these closed forms.
TEST(Clusters, EntropyAndSharesAreExact) {
  std::vector<std::uint32_t> bins(4);
  const std::vector<float> even{0, 1, 2, 3}, equal{5, 5, 5}, two{0, 0, 0, 1};
  EXPECT_DOUBLE_EQ(histogram_entropy(even, bins), 2);
  EXPECT_EQ(histogram_entropy(equal, bins), 0);
  EXPECT_EQ(histogram_entropy({}, bins), 0);
  EXPECT_DOUBLE_EQ(histogram_entropy(two, bins), 2 - 0.75 * std::log2(3.0));
  std::vector<std::uint32_t> sizes(3);
  share_out(100, 10, std::vector<double>{1, 2, 4}, sizes);
  EXPECT_EQ(sizes, (std::vector<std::uint32_t>{20, 30, 50}));
  share_out(100, 10, std::vector<double>{0, 0, 0}, sizes);
  EXPECT_EQ(sizes, (std::vector<std::uint32_t>{33, 33, 34}));
}

TEST(KMeans, FindsGroupsAndStopsWhereThereAreNoMore) {
  const ElementStream stream{1, 2};
  std::vector<float> numbers;
  for (const float centre : {1.0F, 5.0F, 9.0F}) {
    for (int i = -4; i <= 4; ++i) numbers.push_back(centre + 0.1F * static_cast<float>(i));
  }
  std::vector<double> distances(numbers.size());
  std::vector<float> centres(3);
  find_centres(numbers, stream, 0, distances, centres);
  EXPECT_NEAR(centres[0], 1, 1e-5);
  EXPECT_NEAR(centres[1], 5, 1e-5);
  EXPECT_NEAR(centres[2], 9, 1e-5);
  const std::vector<float> two{0, 0, 4, 4, 4};
  centres.assign(4, -1);
  find_centres(two, stream, 0, distances, centres);
  EXPECT_EQ(centres, (std::vector<float>{0, 4, 4, 4}));
  find_centres({}, stream, 0, distances, centres);
  EXPECT_EQ(centres, (std::vector<float>{0, 0, 0, 0}));
}

}  // namespace
}  // namespace sotto::testing
