// Generated data sets: the same bytes on every machine, and the promised properties.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "app/data/images/dataset.h"
#include "app/data/made/digit_strokes.h"
#include "app/data/made/generated.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "tests/core/helpers.h"

namespace sotto {
namespace {

struct Drawn {
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;
};

Drawn draw(Render render, std::size_t pixels, std::uint64_t seed, Split split, std::size_t count) {
  Drawn drawn{std::vector<std::uint8_t>(count * pixels), std::vector<std::uint8_t>(count)};
  for (std::size_t i = 0; i < count; ++i) {
    Philox random = example_random(seed, split, i);
    drawn.labels[i] = render(random, std::span(drawn.pixels).subspan(i * pixels, pixels));
  }
  return drawn;
}

std::string digest(const Drawn& drawn) {
  std::vector<std::uint8_t> all = drawn.labels;
  all.insert(all.end(), drawn.pixels.begin(), drawn.pixels.end());
  return sha256_hex(std::as_bytes(std::span(all)));
}

// The drawing only uses +, -, *, / and sqrt on floats, which IEEE 754 defines to the last bit, and no function of libm.
// These digests hold on every machine, and change only when the data are meant to change.
TEST(Digits, GoldenBytes) {
  EXPECT_EQ(digest(draw(draw_digit, 784, 1, Split::train, 200)),
            "659bddc6ff3a48b2da133d8a57b3a6b253276cc2100be72f11fa1a8b168d218a");
  EXPECT_EQ(digest(draw(draw_digit, 784, 1, Split::test, 200)),
            "d1232e5a75609c5f06e2f25f0f733bbe0f930515ce3ca3b8cbd4b7c0dafeb579");
}

TEST(MadeCifar, GoldenBytes) {
  EXPECT_EQ(digest(draw(draw_made_cifar, 3072, 1, Split::train, 100)),
            "f24f8f1c5fbb9dcf73882797b6f7bc3f972b07eadef13efef762cfebfaf17abe");
}

TEST(Made, SeedAndSplitGiveOtherExamples) {
  const auto train = draw(draw_digit, 784, 1, Split::train, 50);
  EXPECT_NE(train.pixels, draw(draw_digit, 784, 1, Split::test, 50).pixels);
  EXPECT_NE(train.pixels, draw(draw_digit, 784, 2, Split::train, 50).pixels);
}

TEST(Made, ExamplesDependOnTheirIndexAlone) {
  const auto small = open_dataset({.train_size = 20}, Split::train);
  const auto large = open_dataset({.train_size = 1000}, Split::train);
  std::vector<float> a(784);
  std::vector<float> b(784);
  std::int64_t la = 0;
  std::int64_t lb = 0;
  for (const std::size_t i : {19U, 3U, 0U, 19U, 7U}) {
    small->read(i, a, la);
    large->read(i, b, lb);
    EXPECT_EQ(la, lb);
    EXPECT_EQ(a, b);
  }
}

TEST(Digits, LookLikeMnistInNumbers) {
  constexpr std::size_t n = 5000;
  const Drawn drawn = draw(draw_digit, 784, 1, Split::train, n);
  std::array<int, 10> classes{};
  double sum = 0;
  double squares = 0;
  double edge = 0;
  for (std::size_t i = 0; i < n; ++i) {
    ++classes.at(drawn.labels[i]);
    int brightest = 0;
    for (std::size_t p = 0; p < 784; ++p) {
      const int value = drawn.pixels[i * 784 + p];
      sum += value / 255.0;
      squares += value / 255.0 * value / 255.0;
      const std::size_t row = p / 28;
      const std::size_t column = p % 28;
      if (row < 2 || row > 25 || column < 2 || column > 25) edge += value / 255.0;
      brightest = std::max(brightest, value);
    }
    EXPECT_GT(brightest, 100) << "example " << i << " is nearly empty";
  }
  for (const int count : classes) EXPECT_NEAR(count, n / 10.0, 5 * std::sqrt(n * 0.09));
  const double mean = sum / (n * 784);
  EXPECT_NEAR(mean, 0.095,
              0.01);  // less ink than MNIST (.1307 and .3081), so that LeNet surely learns at lr .05
  EXPECT_NEAR(std::sqrt(squares / (n * 784) - mean * mean), 0.252, 0.02);
  EXPECT_LT(edge / sum, 0.01);  // margins are clear
}

TEST(Digits, EveryDigitHasSeveralWays) {
  for (int digit = 0; digit < 10; ++digit) {
    const auto ways = ways_of_writing(digit);
    EXPECT_GE(ways.size(), 3U);
    for (const Way& way : ways) {
      EXPECT_GT(way.weight, 0);
      EXPECT_FALSE(way.strokes.empty());
    }
  }
}

TEST(MadeImages, AreThoseOfCifarsFormAtAnotherSize) {
  const auto small = open_dataset({.data = "made-cifar", .train_size = 40, .test_size = 1}, Split::train);
  const auto large = open_dataset({.data = "made-images", .train_size = 40, .test_size = 1}, Split::train);
  const auto same =
      open_dataset({.data = "made-images", .train_size = 40, .test_size = 1, .image_size = 32}, Split::train);
  EXPECT_EQ(large->shape(), (ImageShape{3, 224, 224}));
  EXPECT_EQ(same->shape(), (ImageShape{3, 32, 32}));
  std::vector<float> image(3072), big(std::size_t{3} * 224 * 224), other(3072);
  for (std::size_t i = 0; i < 40; ++i) {
    std::int64_t label = -1, big_label = -2, other_label = -3;
    small->read(i, image, label);
    large->read(i, big, big_label);
    same->read(i, other, other_label);
    EXPECT_EQ(label, big_label);
    EXPECT_EQ(label, other_label);
    double difference = 0;
    for (std::size_t p = 0; p < 1024; ++p) {
      // Compares red values as bytes. Of the large picture, the mean of 7x7 pixels has less noise.
      double mean = 0;
      for (std::size_t q = 0; q < 49; ++q) mean += big[(p / 32 * 7 + q / 7) * 224 + p % 32 * 7 + q % 7] / 49.0;
      const double byte = (image[p] * 0.2470 + 0.4914) * 255;
      EXPECT_NEAR(byte, (other[p] * 0.229 + 0.485) * 255, 0.01);
      difference += std::abs(byte - (mean * 0.229 + 0.485) * 255) / 1024;
    }
    EXPECT_LT(difference, 30) << i;
  }
}

TEST(MadeCifar, ClassesAreBalancedAndPixelsUseTheirRange) {
  constexpr std::size_t n = 1000;
  const Drawn drawn = draw(draw_made_cifar, 3072, 1, Split::train, n);
  std::array<int, 10> classes{};
  for (const auto label : drawn.labels) ++classes.at(label);
  for (const int count : classes) EXPECT_NEAR(count, n / 10.0, 5 * std::sqrt(n * 0.09));
  const auto [low, high] = std::minmax_element(drawn.pixels.begin(), drawn.pixels.end());
  EXPECT_LT(*low, 10);
  EXPECT_GT(*high, 245);
}

TEST(Made, NormalisedAsPromised) {
  const Drawn drawn = draw(draw_digit, 784, 1, Split::test, 3);
  const auto test = open_dataset({.test_size = 3}, Split::test);
  std::vector<float> image(784);
  std::int64_t label = 0;
  for (const bool again : {false, true}) {  // first drawn, then read from memory
    test->read(2, image, label);
    EXPECT_EQ(label, drawn.labels[2]) << again;
    for (std::size_t p = 0; p < 784; ++p) {
      EXPECT_FLOAT_EQ(image[p], (static_cast<float>(drawn.pixels[2 * 784 + p]) / 255.0F - 0.1307F) / 0.3081F);
    }
  }
}

TEST(Made, ReadFromSeveralThreads) {
  constexpr std::size_t n = 300;
  const auto data = open_dataset({.train_size = n}, Split::train);
  const auto reference = open_dataset({.train_size = n}, Split::train);
  std::vector<std::vector<float>> read(4, std::vector<float>(n * 784));
  std::vector<std::thread> threads;
  threads.reserve(read.size());
  for (auto& images : read) {
    threads.emplace_back([&data, &images] {
      std::int64_t label = 0;
      for (std::size_t i = 0; i < n; ++i) data->read(i, std::span(images).subspan(i * 784, 784), label);
    });
  }
  for (auto& thread : threads) thread.join();
  std::vector<float> wanted(n * 784);
  std::int64_t label = 0;
  for (std::size_t i = 0; i < n; ++i) reference->read(i, std::span(wanted).subspan(i * 784, 784), label);
  for (const auto& images : read) EXPECT_EQ(images, wanted);
}

TEST(Sine, IsCloseToTheRealOne) {
  for (int i = -3000; i <= 3000; ++i) {
    const float turns = static_cast<float>(i) / 1000;
    EXPECT_NEAR(sine(turns), std::sin(2 * 3.14159265358979 * turns), 1.2e-3);
  }
}

TEST(Made, SizesHaveALimit) {
  for (const char* name : {"digits", "made-cifar"}) {
    const auto open = [&](std::int64_t train) { open_dataset({.data = name, .train_size = train}, Split::train); };
    test::error_of<ConfigError>([&] { open(DataOptions::most_examples + 1); });
    test::error_of<ConfigError>([&] { open(-1); });
  }
  const Expression expression = parse_expression("test", "data(train-size=10000001)");
  DataOptions options;
  test::error_of<ConfigError>([&] { read_options(expression, expression.calls.front(), options); });
}

}  // namespace
}  // namespace sotto
