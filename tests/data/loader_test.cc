#include "app/data/images/loader.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/random.h"
#include "tests/core/helpers.h"
#include "tests/support/allocation_counter.h"

namespace sotto {
namespace {

using test::error_of;

// Example i is the image {i, -i} with label i % 10, so that a batch tells which examples are in it.
class Numbered final : public Dataset {
 public:
  explicit Numbered(std::size_t size, std::size_t broken = SIZE_MAX) : size_(size), broken_(broken) {}
  std::size_t size() const override { return size_; }
  ImageShape shape() const override { return {1, 1, 2}; }
  std::int64_t classes() const override { return 10; }
  std::int64_t label(std::size_t index) const override { return static_cast<std::int64_t>(index % 10); }
  std::vector<float> black() const override { return {0}; }
  void read(std::size_t index, std::span<float> image, std::int64_t& label) const override {
    if (index == broken_) throw FileError("example.bin: damaged");
    ++reads_;
    image[0] = static_cast<float>(index);
    image[1] = -image[0];
    label = static_cast<std::int64_t>(index % 10);
  }
  std::size_t reads() const { return reads_; }

 private:
  std::size_t size_;
  std::size_t broken_;
  mutable std::atomic<std::size_t> reads_{0};
};

std::vector<std::uint32_t> ids(const Batch& batch) {
  std::vector<std::uint32_t> all;
  all.reserve(batch.count());
  for (std::size_t i = 0; i < batch.count(); ++i) {
    all.push_back(static_cast<std::uint32_t>(batch.images[2 * i]));
    EXPECT_EQ(batch.images[2 * i + 1], -batch.images[2 * i]);
    EXPECT_EQ(batch.labels[i], all.back() % 10);
  }
  return all;
}

// The examples that all ranks together see in the first `steps` micro-steps, in global order.
std::vector<std::uint32_t> seen(const Dataset& data, int ranks, std::size_t batch, std::uint64_t steps,
                                std::uint64_t seed = 1) {
  std::vector<std::unique_ptr<Loader>> loaders;
  loaders.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    loaders.push_back(std::make_unique<Loader>(
        data, LoaderOptions{.order = {.seed = seed, .rank = rank, .ranks = ranks, .batch = batch}}));
  }
  std::vector<std::uint32_t> all;
  for (std::uint64_t step = 0; step < steps; ++step) {
    for (auto& loader : loaders) {
      const auto some = ids(loader->at(step));
      EXPECT_EQ(some.size(), batch);
      all.insert(all.end(), some.begin(), some.end());
    }
  }
  return all;
}

TEST(Loader, SeedAndEpochGiveThePermutation) {
  const Numbered data(103);
  for (const int ranks : {1, 2, 4}) {
    const std::size_t batch = 24 / static_cast<std::size_t>(ranks);
    Loader loader(data, {.order = {.ranks = ranks, .batch = batch}});
    ASSERT_EQ(loader.epochs().each, 4U);
    const auto all = seen(data, ranks, batch, 3 * 4);
    std::vector<std::uint32_t> order(103);
    for (std::size_t epoch = 0; epoch < 3; ++epoch) {
      shuffle(order, 1, epoch);
      const std::vector<std::uint32_t> wanted(order.begin(), order.begin() + 96);
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(epoch * 96);
      EXPECT_EQ(std::vector<std::uint32_t>(begin, begin + 96), wanted) << ranks << " ranks, epoch " << epoch;
      std::vector<std::uint32_t> distinct(begin, begin + 96);
      std::sort(distinct.begin(), distinct.end());
      EXPECT_EQ(std::unique(distinct.begin(), distinct.end()), distinct.end());
    }
  }
}

TEST(Loader, TheGlobalOrderIgnoresTheRanks) {
  const Numbered data(100);
  const auto one = seen(data, 1, 12, 20);
  EXPECT_EQ(seen(data, 2, 6, 20), one);
  EXPECT_EQ(seen(data, 4, 3, 20), one);
  EXPECT_NE(seen(data, 1, 12, 20, 2), one);
}

// The thread has read ahead from another place by then.
TEST(Loader, GoesOnAfterWhatOtherRanksHaveRead) {
  const Numbered data(100);
  const auto undisturbed = seen(data, 1, 12, 17);
  Loader loader(data, {.order = {.batch = 12}});
  loader.at(0);
  loader.go_on({.position = 40, .epoch = 1, .read = {{4, 6, 2}}}, {0, 1});
  ASSERT_EQ(loader.epochs().left, 4U);
  for (std::size_t i = 0; i < 5; ++i) {  // the last one begins the next epoch
    const auto wanted = std::span(undisturbed).subspan(96 + 48 + 12 * i, 12);
    EXPECT_TRUE(std::ranges::equal(ids(loader.at(40 + i)), wanted)) << i;
  }
}

TEST(Loader, AnyOrderOfAccessGivesTheSameBatches) {
  const Numbered data(50);
  for (const std::size_t prefetch : {0U, 1U, 2U, 5U}) {
    const LoaderOptions options{.order = {.rank = 1, .ranks = 2, .batch = 7}, .prefetch = prefetch};
    std::vector<std::vector<std::uint32_t>> in_order;
    Loader consecutive(data, options);
    for (std::uint64_t step = 0; step < 30; ++step) in_order.push_back(ids(consecutive.at(step)));
    Loader random(data, options);
    Philox numbers(5, Purpose::test, prefetch);
    for (int i = 0; i < 300; ++i) {
      const std::uint64_t step = numbers.below(30);
      ASSERT_EQ(ids(random.at(step)), in_order[step]);
      if (numbers.below(2) == 0) {  // then the next step, or the same one again
        const std::uint64_t next = std::min<std::uint64_t>(step + numbers.below(2), 29);
        ASSERT_EQ(ids(random.at(next)), in_order[next]);
      }
    }
  }
}

TEST(Loader, FarPositionsAreReachedAtOnce) {
  const Numbered data(50);
  Loader loader(data, {.order = {.batch = 10}});
  const std::uint64_t step = 5 * 1'000'000'007ULL + 3;
  const auto far = ids(loader.at(step));
  std::vector<std::uint32_t> order(50);
  shuffle(order, 1, 1'000'000'007ULL);
  EXPECT_EQ(far, std::vector<std::uint32_t>(order.begin() + 30, order.begin() + 40));
  EXPECT_LE(data.reads(), 10U * 7);
}

TEST(Loader, ABatchStaysValidUntilTheNextCall) {
  const Numbered data(1000);
  Loader loader(data, {.order = {.batch = 10}, .prefetch = 3});
  const Batch batch = loader.at(0);
  const auto before = ids(batch);
  while (data.reads() < 40) std::this_thread::yield();  // until the thread has read ahead as far as it may
  EXPECT_EQ(ids(batch), before);
}

TEST(Loader, AllocatesNothingAfterTheFirstEpoch) {
  const auto digits = open_dataset({.train_size = 60}, Split::train);
  Loader loader(*digits, {.order = {.batch = 10}, .prefetch = 2});
  for (std::uint64_t step = 0; step < 6; ++step) loader.at(step);
  const std::size_t before = testing::allocation_count();
  for (std::uint64_t step = 6; step < 60; ++step) loader.at(step);
  loader.at(3);  // a jump allocates nothing, either
  EXPECT_EQ(testing::allocation_count(), before);
}

TEST(Loader, TooLittleData) {
  const Numbered data(99);
  const auto open = [&](std::size_t batch, int ranks) {
    return error_of<ConfigError>([&] { Loader(data, {.order = {.ranks = ranks, .batch = batch}}); });
  };
  EXPECT_NE(open(25, 4).find("99 training examples cannot fill one global batch of 4 ranks x 25"), std::string::npos);
  EXPECT_NE(open(100, 1).find("99"), std::string::npos);
  EXPECT_NE(open(0, 1).find("batch size"), std::string::npos);
  EXPECT_FALSE(open(SIZE_MAX / 2 + 1, 4).empty());  // times 4, this overflows to 0
  Loader just(data, {.order = {.ranks = 4, .batch = 24}});
  EXPECT_EQ(just.epochs().each, 1U);
  EXPECT_THROW(Loader(data, {.order = {.rank = 2, .ranks = 2}}), std::logic_error);
}

TEST(Loader, AnErrorOfTheThreadIsPassedOn) {
  std::vector<std::uint32_t> order(40);
  shuffle(order, 1, 0);
  const Numbered data(40, order[25]);
  Loader loader(data, {.order = {.batch = 10}, .prefetch = 0});
  EXPECT_EQ(ids(loader.at(0)).size(), 10U);
  EXPECT_EQ(ids(loader.at(1)).size(), 10U);
  for (const std::uint64_t step : {2U, 2U, 0U}) {
    EXPECT_EQ(error_of<FileError>([&] { loader.at(step); }), "example.bin: damaged");
  }
}

TEST(Loader, MayBeDroppedAtAnyMoment) {
  const Numbered data(1000);
  for (std::uint64_t steps = 0; steps < 50; ++steps) {
    Loader loader(data, {.order = {.batch = 10}, .prefetch = steps % 4});
    for (std::uint64_t step = 0; step < steps; ++step) loader.at(step);
  }
}

}  // namespace
}  // namespace sotto
