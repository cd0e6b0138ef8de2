#include "app/data/pictures/view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <vector>

#include "tests/data/picture_files.h"

namespace sotto {
namespace {

using test::Raw;

// The picture turned upright, by the definition of each orientation.
Raw upright(const Raw& stored, int orientation) {
  Raw seen = stored;
  if (orientation >= 5) std::swap(seen.width, seen.height);
  for (std::size_t y = 0; y < seen.height; ++y) {
    for (std::size_t x = 0; x < seen.width; ++x) {
      const std::size_t w = stored.width - 1, h = stored.height - 1;
      const std::array<std::array<std::size_t, 2>, 8> from{
          {{x, y}, {w - x, y}, {w - x, h - y}, {x, h - y}, {y, x}, {y, h - x}, {w - y, h - x}, {w - y, x}}};
      const auto [from_x, from_y] = from[static_cast<std::size_t>(orientation - 1)];
      for (std::size_t c = 0; c < 3; ++c) {
        seen.values[(y * seen.width + x) * 3 + c] = stored.at(from_x, from_y, c);
      }
    }
  }
  return seen;
}

// A pixel of a view by the definition, in doubles and without rounding in between. It is the mean of the pixels of the
// part, weighted by a triangle around the centre of the pixel. The half width of the triangle is a pixel of the result
// or of the picture, whichever is wider.
double blended(const Raw& picture, const View& view, std::size_t x, std::size_t y, std::size_t channel) {
  const auto weights = [](const Stretch& s, std::size_t output) {
    const double scale = static_cast<double>(s.end - s.begin) / static_cast<double>(s.outputs);
    const double centre = static_cast<double>(s.begin) + (static_cast<double>(s.first + output) + 0.5) * scale;
    std::vector<double> shares;
    for (std::size_t p = s.begin; p < s.end; ++p) {
      const double distance = std::abs(static_cast<double>(p) + 0.5 - centre) / std::max(1.0, scale);
      shares.push_back(std::max(0.0, 1 - distance));
    }
    double sum = 0;
    for (const double share : shares) sum += share;
    for (double& share : shares) share /= sum;
    return shares;
  };
  const std::vector<double> across = weights(view.across, view.mirrored ? view.side - 1 - x : x);
  const std::vector<double> down = weights(view.down, y);
  double value = 0;
  for (std::size_t j = 0; j < down.size(); ++j) {
    if (down[j] == 0) continue;
    for (std::size_t i = 0; i < across.size(); ++i) {
      if (across[i] == 0) continue;
      value += down[j] * across[i] * picture.at(view.across.begin + i, view.down.begin + j, channel);
    }
  }
  return value;
}

void expect_view(const std::vector<std::byte>& file, const Raw& seen, const View& view, double tolerance) {
  const auto picture = open_picture(file);
  ViewReader reader;
  const std::span<const std::uint8_t> pixels = reader.read(*picture, view);
  ASSERT_EQ(pixels.size(), 4 * view.side * view.side);
  for (std::size_t y = 0; y < view.side; ++y) {
    for (std::size_t x = 0; x < view.side; ++x) {
      for (std::size_t c = 0; c < 3; ++c) {
        ASSERT_NEAR(pixels[4 * (y * view.side + x) + c], blended(seen, view, x, y, c), tolerance)
            << x << ' ' << y << ' ' << c;
      }
    }
  }
}

TEST(ViewReader, ResizesByTheDefinitionFromAnyOrientation) {
  const Raw stored = test::made_picture(75, 58);
  Philox random(3, Purpose::test);
  for (unsigned orientation = 1; orientation <= 8; ++orientation) {
    SCOPED_TRACE(orientation);
    const auto png = test::png_file(stored, {.orientation = orientation});
    const auto jpeg = test::jpeg_file(stored, {.orientation = orientation});
    const Raw seen = upright(stored, static_cast<int>(orientation));
    const Raw seen_jpeg = upright(test::decoded_jpeg(jpeg), static_cast<int>(orientation));
    for (const std::size_t side : {32U, 60U}) {  // the view is smaller or larger than the picture
      expect_view(png, seen, middle_view(seen.width, seen.height, side), 1.01);
      for (int i = 0; i < 3; ++i) {
        const View view = random_view(seen.width, seen.height, side, random);
        expect_view(png, seen, view, 1.01);  // two roundings to half a byte
        expect_view(jpeg, seen_jpeg, view, 1.01);
      }
    }
  }
}

// A JPEG picture is decoded at reduced size where the view needs at most half of its pixels.
TEST(ViewReader, ReducedPicturesAreNearlyTheSame) {
  const Raw picture = [] {
    Raw smooth{400, 300, 3, std::vector<std::uint8_t>(std::size_t{400} * 300 * 3)};
    for (std::size_t i = 0; i < smooth.values.size(); ++i) {
      const auto x = static_cast<double>(i / 3 % 400), y = static_cast<double>(i / 1200);
      smooth.values[i] = static_cast<std::uint8_t>(128 + 50 * std::sin(x / 40 + y / 70) + 40 * std::cos(y / 33));
    }
    return smooth;
  }();
  const auto file = test::jpeg_file(picture, {.quality = 98, .across = 1, .down = 1});
  Philox random(5, Purpose::test);
  for (int i = 0; i < 10; ++i) {
    const View view = random_view(400, 300, 24, random);
    expect_view(file, picture, view, 4);
  }
  expect_view(file, picture, middle_view(400, 300, 24), 4);
  expect_view(test::png_file(picture), picture, middle_view(400, 300, 24), 1.01);  // PNG is decoded at full size
}

TEST(MiddleView, IsTorchvisions) {
  // Resize(256) makes 341x256 of 500x375. CenterCrop(224) begins at column 58.5, rounded to the even 58, and at row 16.
  const View wide = middle_view(500, 375, 224);
  EXPECT_EQ(wide.across.outputs, 341U);
  EXPECT_EQ(wide.across.first, 58U);
  EXPECT_EQ(wide.down.outputs, 256U);
  EXPECT_EQ(wide.down.first, 16U);
  EXPECT_EQ(wide.across.begin, 0U);
  EXPECT_EQ(wide.across.end, 500U);
  const View tall = middle_view(300, 451, 224);  // 256x384
  EXPECT_EQ(tall.across.outputs, 256U);
  EXPECT_EQ(tall.down.outputs, 384U);
  EXPECT_EQ(tall.down.first, 80U);
  const View odd = middle_view(1000, 767, 224);  // 333: (333 - 224) / 2 is 54.5, which is rounded to 54
  EXPECT_EQ(odd.across.outputs, 333U);
  EXPECT_EQ(odd.across.first, 54U);
}

TEST(RandomView, AreasRatiosAndPlacesHaveTheirDistributions) {
  Philox random(7, Purpose::test);
  constexpr int draws = 4000;
  double area_sum = 0, log_ratio_sum = 0, left_sum = 0, mirrored = 0;
  std::array<int, 4> quarters{};  // counts in quarters of the range of areas
  for (int i = 0; i < draws; ++i) {
    const View view = random_view(1000, 1000, 224, random);
    const auto width = static_cast<double>(view.across.end - view.across.begin);
    const auto height = static_cast<double>(view.down.end - view.down.begin);
    ASSERT_LE(view.across.end, 1000U);
    ASSERT_LE(view.down.end, 1000U);
    ASSERT_EQ(view.across.outputs, 224U);
    ASSERT_EQ(view.across.first, 0U);
    const double area = width * height / 1e6;
    ASSERT_GT(area, 0.0795);
    ASSERT_LE(area, 1.0);
    ASSERT_GT(width / height, 0.745);
    ASSERT_LT(width / height, 1.342);
    area_sum += area;
    ++quarters[static_cast<std::size_t>(std::min(3.0, (area - 0.08) / 0.23))];
    log_ratio_sum += std::log(width / height);
    left_sum += width < 1000 ? static_cast<double>(view.across.begin) / (1000 - width) : 0.5;
    mirrored += view.mirrored ? 1 : 0;
  }
  EXPECT_NEAR(log_ratio_sum / draws, 0, 0.015);  // six deviations of the mean; likewise below
  EXPECT_NEAR(left_sum / draws, 0.5, 0.028);
  EXPECT_NEAR(mirrored / draws, 0.5, 0.048);
  // Areas are uniform, except that a large area is drawn again when it does not fit with its ratio.
  EXPECT_NEAR(quarters[0], quarters[1], 300);
  EXPECT_GT(quarters[3], 300);
  EXPECT_LT(quarters[3], quarters[0]);
  EXPECT_NEAR(area_sum / draws, 0.5, 0.05);
}

TEST(RandomView, OfLongPicturesIsTheMiddle) {
  Philox random(9, Purpose::test);
  const View wide = random_view(2000, 10, 32, random);
  EXPECT_EQ(wide.across.end - wide.across.begin, 13U);
  EXPECT_EQ(wide.down.end - wide.down.begin, 10U);
  EXPECT_EQ(wide.across.begin, 993U);
  const View tall = random_view(10, 2000, 32, random);
  EXPECT_EQ(tall.across.end - tall.across.begin, 10U);
  EXPECT_EQ(tall.down.end - tall.down.begin, 13U);
  const View dot = random_view(1, 1, 32, random);
  EXPECT_EQ(dot.across.end - dot.across.begin, 1U);
}

TEST(RandomView, IsAFunctionOfTheNumbersDrawn) {
  const auto part = [](std::uint64_t index) {
    Philox random(1, Purpose::augment, index);
    const View view = random_view(640, 480, 224, random);
    return std::array{view.across.begin, view.across.end, view.down.begin, view.down.end, std::size_t{view.mirrored}};
  };
  std::set<std::array<std::size_t, 5>> different;
  for (std::uint64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(part(i), part(i));
    different.insert(part(i));
  }
  EXPECT_GT(different.size(), 48U);
}

// A picture without content, which tells how much room was there before it.
class Blank final : public Picture {
 public:
  Blank(std::size_t width, std::size_t height) { set_size(width, height); }
  bool reduces() const override { return false; }
  void decode(const Window& wanted, std::size_t /*reduction*/, Pixels& pixels) override {
    room = pixels.bytes.capacity();
    pixels.part = wanted;
    pixels.bytes.resize(4 * wanted.width * wanted.height);
  }
  void check() override {}
  std::size_t room = 0;
};

TEST(ViewReader, KeepsNoRoomForAHugePicture) {
  ViewReader reader;
  Blank huge(4000, 3000), small(40, 30), after(40, 30);
  reader.read(huge, middle_view(4000, 3000, 8));
  reader.read(small, middle_view(40, 30, 8));
  EXPECT_LT(small.room, 4000U * 3000U);
  reader.read(after, middle_view(40, 30, 8));
  EXPECT_GT(after.room, 0U) << "room for a usual one is kept";
}

}  // namespace
}  // namespace sotto
