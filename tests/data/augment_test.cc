#include "app/data/images/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "app/data/images/dataset.h"
#include "app/data/images/loader.h"

namespace sotto {
namespace {

constexpr ImageShape image_shape{2, 6, 5};

// Pixels 1 .. 60, none of which is black.
std::vector<float> numbered() {
  std::vector<float> image(image_shape.size());
  std::iota(image.begin(), image.end(), 1.0F);
  return image;
}

// The numbered() image, moved and perhaps mirrored; black is -1 in the first channel and -2 in the second.
std::vector<float> moved(std::int64_t down, std::int64_t right, bool mirrored) {
  const std::vector<float> image = numbered();
  std::vector<float> result;
  for (std::int64_t c = 0; c < 2; ++c) {
    for (std::int64_t y = 0; y < 6; ++y) {
      for (std::int64_t x = 0; x < 5; ++x) {
        const std::int64_t from_y = y + down, from_x = (mirrored ? 4 - x : x) + right;
        const bool inside = from_y >= 0 && from_y < 6 && from_x >= 0 && from_x < 5;
        const float black = c == 0 ? -1 : -2;
        result.push_back(inside ? image[static_cast<std::size_t>((c * 6 + from_y) * 5 + from_x)] : black);
      }
    }
  }
  return result;
}

TEST(CropFlip, MovesWithinThePadAndMirrorsEvenly) {
  CropFlip augment(image_shape, {-1, -2}, 2);
  std::vector<int> seen(50);
  for (std::uint32_t example = 0; example < 5000; ++example) {
    std::vector<float> image = numbered();
    augment.apply(image, 7, 3, example);
    int found = 0;
    for (std::int64_t down = -2; down <= 2; ++down) {
      for (std::int64_t right = -2; right <= 2; ++right) {
        for (const bool mirrored : {false, true}) {
          if (image != moved(down, right, mirrored)) continue;
          ++found;
          ++seen[static_cast<std::size_t>(((down + 2) * 5 + right + 2) * 2 + (mirrored ? 1 : 0))];
        }
      }
    }
    ASSERT_EQ(found, 1);
  }
  // Chi-squared with 49 degrees of freedom is below 94 with probability 1 - 1e-4.
  double chi = 0;
  for (const int count : seen) chi += (count - 100.0) * (count - 100.0) / 100;
  EXPECT_LT(chi, 94);
}

TEST(CropFlip, IsAFunctionOfSeedEpochAndExample) {
  CropFlip augment(image_shape, {-1, -2}, 4);
  const auto changed = [&](std::uint64_t seed, std::uint64_t epoch, std::uint32_t example) {
    std::vector<float> image = numbered();
    augment.apply(image, seed, epoch, example);
    return image;
  };
  std::set<std::vector<float>> by_seed, by_epoch, by_example;
  for (std::uint32_t i = 0; i < 20; ++i) {
    by_seed.insert(changed(i, 0, 0));
    by_epoch.insert(changed(0, i, 0));
    by_example.insert(changed(0, 0, i));
  }
  for (const auto& different : {by_seed, by_epoch, by_example}) EXPECT_GT(different.size(), 12U);
  EXPECT_EQ(changed(5, 6, 7), changed(5, 6, 7));
}

TEST(CropFlip, IsWhatTheLoaderDoesOnAnyRank) {
  const DataOptions options{.data = "made-cifar", .train_size = 24, .test_size = 1};
  const auto data = open_dataset(options, Split::train);
  CropFlip augment(data->shape(), data->black());
  Loader whole(*data, {.order = {.seed = 3, .batch = 12}, .augment = Augment::crop_flip});
  Loader half(*data, {.order = {.seed = 3, .rank = 1, .ranks = 2, .batch = 6}, .augment = Augment::crop_flip});
  std::vector<std::uint32_t> order(24);
  for (const std::uint64_t step : {0, 1, 2, 3, 1}) {
    const Batch batch = whole.at(step), second = half.at(step);
    shuffle(order, 3, step / 2);
    for (std::size_t i = 0; i < 12; ++i) {
      const std::uint32_t example = order[step % 2 * 12 + i];
      std::vector<float> image(data->shape().size());
      std::int64_t label = 0;
      data->read(example, image, label);
      augment.apply(image, 3, step / 2, example);
      EXPECT_TRUE(std::ranges::equal(batch.images.subspan(i * image.size(), image.size()), image)) << step << ' ' << i;
      EXPECT_EQ(batch.labels[i], label);
    }
    EXPECT_TRUE(std::ranges::equal(second.images, batch.images.subspan(6 * data->shape().size())));
  }
}

// A black byte, (0 - mean) / deviation.
TEST(CropFlip, BlackIsNormalised) {
  const auto data = open_dataset({.data = "made-cifar", .train_size = 24, .test_size = 1}, Split::train);
  const std::vector<float> black = data->black();
  ASSERT_EQ(black.size(), 3U);
  EXPECT_FLOAT_EQ(black[0], -0.4914F / 0.2470F);
  EXPECT_FLOAT_EQ(black[2], -0.4465F / 0.2616F);
}

}  // namespace
}  // namespace sotto
