#include "app/data/order.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/random.h"
#include "tests/core/helpers.h"

namespace sotto {
namespace {

std::vector<std::size_t> some_lengths(std::size_t count) {
  Philox random(1, Purpose::test);
  std::vector<std::size_t> lengths(count);
  for (std::size_t& length : lengths) length = 2 + random.below(30);
  return lengths;
}

// The examples of an epoch, by position and rank.
std::vector<std::vector<std::uint32_t>> epoch_of(const std::vector<std::size_t>& lengths, int ranks,
                                                 std::uint64_t epoch, std::size_t batch = 10) {
  std::vector<std::vector<std::uint32_t>> batches;
  for (int rank = 0; rank < ranks; ++rank) {
    LengthOrder order(lengths, {.rank = rank, .ranks = ranks, .batch = batch});
    const std::uint64_t positions = order.epochs().each;
    for (std::uint64_t p = 0; p < positions; ++p) {
      const auto examples = order.at(epoch * positions + p);
      batches.emplace_back(examples.begin(), examples.end());
    }
  }
  return batches;
}

TEST(LengthOrder, EveryExampleOnceButForTheLastBatches) {
  const auto lengths = some_lengths(1000);
  for (const int ranks : {1, 3}) {
    std::set<std::uint32_t> seen;
    std::size_t count = 0;
    for (const auto& batch : epoch_of(lengths, ranks, 2)) {
      seen.insert(batch.begin(), batch.end());
      count += batch.size();
    }
    EXPECT_EQ(seen.size(), count);
    EXPECT_GE(count, ranks == 1 ? 1000U : 900U);
  }
}

TEST(LengthOrder, BatchesAreOfAboutOneLengthAndSize) {
  const auto lengths = some_lengths(1000);
  double mean = 0;
  for (const std::size_t length : lengths) mean += static_cast<double>((length + 3) / 4 * 4) / 1000;
  for (const auto& batch : epoch_of(lengths, 1, 0)) {
    std::size_t least = 99, most = 0;
    for (const std::uint32_t example : batch) {
      least = std::min(least, lengths[example]);
      most = std::max(most, lengths[example]);
    }
    EXPECT_LE(most - least, 7U) << "two neighbouring steps of 4";
    EXPECT_LE(static_cast<double>(batch.size() * most), 10 * mean);
  }
}

TEST(LengthOrder, EpochsDifferAndPositionsRepeat) {
  const auto lengths = some_lengths(300);
  EXPECT_EQ(epoch_of(lengths, 2, 1), epoch_of(lengths, 2, 1));
  EXPECT_NE(epoch_of(lengths, 2, 1), epoch_of(lengths, 2, 2));
  LengthOrder order(lengths, {.batch = 10});
  const std::vector<std::uint32_t> third(order.at(3).begin(), order.at(3).end());
  order.at(order.epochs().each + 1);
  EXPECT_TRUE(std::ranges::equal(order.at(3), third));
}

TEST(LengthOrder, RanksHaveNeighbouringLengths) {
  const auto lengths = some_lengths(1000);
  LengthOrder first(lengths, {.rank = 0, .ranks = 2, .batch = 10}),
      second(lengths, {.rank = 1, .ranks = 2, .batch = 10});
  for (std::uint64_t p = 0; p < first.epochs().each; ++p) {
    const std::size_t one = lengths[first.at(p).front()], other = lengths[second.at(p).front()];
    EXPECT_LE(std::max(one, other) - std::min(one, other), 7U);
  }
}

TEST(LengthOrder, RefusesTooFewExamples) {
  const auto lengths = some_lengths(19);
  const auto refusal = [&](std::size_t batch) {
    return test::error_of<ConfigError>([&] { LengthOrder(lengths, {.ranks = 2, .batch = batch}); });
  };
  EXPECT_NE(refusal(10).find("19 training examples cannot fill one global batch of 2 ranks x 10"), std::string::npos);
  EXPECT_NE(refusal(0).find("at least 1"), std::string::npos);
}

}  // namespace
}  // namespace sotto
