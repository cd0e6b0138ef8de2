#include "app/data/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "app/data/images/dataset.h"
#include "app/data/order.h"
#include "tests/core/helpers.h"

namespace sotto {
namespace {

using test::error_of;

PartitionSpec spec_of(std::string_view text) { return partition_table().read("partition", text); }

// The labels 0 to classes - 1 in turn.
Labels in_turn(std::size_t examples, std::size_t classes) {
  std::vector<float> labels;
  for (std::size_t i = 0; i < examples; ++i) labels.push_back(static_cast<float>(i % classes));
  return labels_of(labels, false);
}

std::vector<std::size_t> counts_of(const std::vector<std::uint32_t>& hand, const Labels& labels) {
  std::vector<std::size_t> counts(labels.names.size());
  for (const std::uint32_t example : hand) ++counts[labels.classes[example]];
  return counts;
}

class EveryPartition : public testing::TestWithParam<std::string_view> {};

INSTANTIATE_TEST_SUITE_P(Table, EveryPartition,
                         testing::Values("shards(1)", "shards", "shards(7)", "dirichlet", "dirichlet(0.01)",
                                         "dirichlet(1000)"),
                         [](const auto& one) {
                           std::string name(one.param);
                           std::ranges::replace_if(
                               name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
                           return name;
                         });

TEST_P(EveryPartition, GivesEachExampleToOneRank) {
  const Labels labels = in_turn(997, 10);
  for (const int ranks : {1, 2, 5, 8}) {
    const Partition partition(spec_of(GetParam()), labels, {ranks, 3});
    std::vector<std::uint32_t> all;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto hand = partition.hand(rank);
      EXPECT_FALSE(hand.empty());
      EXPECT_TRUE(std::ranges::is_sorted(hand));
      all.insert(all.end(), hand.begin(), hand.end());
    }
    std::ranges::sort(all);
    std::vector<std::uint32_t> wanted(997);
    std::iota(wanted.begin(), wanted.end(), 0U);
    EXPECT_EQ(all, wanted) << ranks << " ranks";
  }
}

TEST_P(EveryPartition, IsAFunctionOfItsArguments) {
  const Labels labels = in_turn(500, 10);
  const auto hand = [&](std::uint64_t seed) { return Partition(spec_of(GetParam()), labels, {4, seed}).hand(1); };
  EXPECT_EQ(hand(1), hand(1));
  EXPECT_NE(hand(1), hand(2));
}

TEST(Partition, TheTableIsTried) {
  std::set<std::string_view> tried{"iid"};
  for (const std::string_view text : {"shards", "dirichlet"}) tried.insert(spec_of(text).entry->name);
  for (const PartitionEntry& entry : partition_table()) EXPECT_TRUE(tried.contains(entry.name)) << entry.name;
  EXPECT_FALSE(deals(spec_of("iid")));
  EXPECT_TRUE(deals(spec_of("shards(3)")));
  EXPECT_FALSE(deals({}));
  EXPECT_TRUE(Partition().hand(0).empty());
  EXPECT_EQ(Partition().report(0), "");
}

// If classes are equally large, and the number of shards is a multiple of the number of classes, each shard has one
// label.
TEST(Shards, ARankHasAtMostNLabels) {
  const Labels labels = in_turn(1000, 10);
  for (const std::int64_t n : {1, 2, 5}) {
    const Partition partition(spec_of("shards(" + std::to_string(n) + ")"), labels, {20, 1});
    for (int rank = 0; rank < 20; ++rank) {
      const auto counts = counts_of(partition.hand(rank), labels);
      EXPECT_EQ(partition.hand(rank).size(), 50U);
      EXPECT_LE(10 - std::ranges::count(counts, 0U), n) << rank;
      for (const std::size_t count : counts) EXPECT_EQ(count % (50 / static_cast<std::size_t>(n)), 0U);
    }
  }
}

TEST(Shards, DifferByOneExampleAtMost) {
  const Labels labels = in_turn(103, 3);
  const Partition partition(spec_of("shards(1)"), labels, {10, 1});
  for (int rank = 0; rank < 10; ++rank) {
    EXPECT_GE(partition.hand(rank).size(), 10U);
    EXPECT_LE(partition.hand(rank).size(), 11U);
  }
}

TEST(Shards, NumbersAreCutInTheirOrder) {
  std::vector<float> values(100);
  for (std::size_t i = 0; i < 100; ++i) values[i] = static_cast<float>(i * 37 % 100) / 8;
  const Partition partition(spec_of("shards(1)"), labels_of(values, true), {4, 1});
  for (int rank = 0; rank < 4; ++rank) {
    float least = 1e9F, most = 0;
    for (const std::uint32_t example : partition.hand(rank)) {
      least = std::min(least, values[example]);
      most = std::max(most, values[example]);
    }
    EXPECT_EQ(most - least, 24.0F / 8) << "25 values that follow each other";
  }
}

// The variance of a share under Dirichlet(alpha) on k ranks is (k - 1) / (k^2 (k alpha + 1)).
TEST(Dirichlet, SharesHaveTheirVariance) {
  constexpr int ranks = 5, classes = 200, each = 400;
  const Labels labels = in_turn(std::size_t{classes} * each, classes);
  for (const double alpha : {0.1, 1.0, 10.0}) {
    const Partition partition(spec_of("dirichlet(" + std::to_string(alpha) + ")"), labels, {ranks, 7});
    double squares = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      for (const std::size_t count : counts_of(partition.hand(rank), labels)) {
        squares += std::pow(static_cast<double>(count) / each - 1.0 / ranks, 2);
      }
    }
    const double wanted = (ranks - 1.0) / (ranks * ranks * (ranks * alpha + 1));
    EXPECT_NEAR(squares / (ranks * classes) / wanted, 1, 0.15) << alpha;
  }
}

TEST(Dirichlet, ATinyAlphaPutsAClassOnOneRank) {
  const Labels labels = in_turn(1000, 10);
  const Partition partition(spec_of("dirichlet(0.0001)"), labels, {3, 1});
  std::size_t whole = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const auto counts = counts_of(partition.hand(rank), labels);
    whole += static_cast<std::size_t>(std::ranges::count(counts, 100U));
  }
  EXPECT_EQ(whole, 10U);
}

TEST(Partition, RefusesWhatCannotBeDealt) {
  const auto refusal = [](std::string_view text, const Labels& labels, int ranks) {
    return error_of<ConfigError>([&] { Partition(spec_of(text), labels, {ranks, 1}); });
  };
  EXPECT_NE(refusal("shards(10)", in_turn(39, 4), 4).find("39 training examples cannot be cut into 10 shards"),
            std::string::npos);
  EXPECT_NE(refusal("shards(10)", in_turn(39, 4), 4).find("shards(10)"), std::string::npos) << "the place";
  EXPECT_NE(refusal("dirichlet(0.1)", in_turn(3, 3), 4).find("none has examples for each of 4 ranks"),
            std::string::npos);
  Labels numbers = in_turn(40, 4);
  numbers.are_numbers = true;
  EXPECT_NE(refusal("dirichlet", numbers, 4).find("shards(n)"), std::string::npos);
  for (const std::string_view text : {"shards(0)", "dirichlet(0)", "dirichlet(-1)", "dirichlet(nan)", "shard", "iid(2)",
                                      "shards(2) | iid", "shards(beta=2)", ""}) {
    EXPECT_NE(error_of<ConfigError>([&] { spec_of(text); }), "") << text;
  }
}

TEST(Partition, ReportsRanksAndClasses) {
  const Labels labels = in_turn(40, 2);
  EXPECT_EQ(Partition(spec_of("shards(1)"), labels, {2, 1}).report(1).substr(0, 121),
            "partition shards(1): a rank has 20 examples, of 1 of the 2 labels; its mix is 0.50 from the mix of all\n"
            " rank  examples   ");
  const std::string many = Partition(spec_of("shards(1)"), in_turn(4000, 100), {40, 1}).report(0);
  EXPECT_NE(many.find(" 0..9   10..19 "), std::string::npos) << many;
  EXPECT_NE(many.find("100 examples on each of 25 more ranks"), std::string::npos) << many;
  EXPECT_EQ(std::ranges::count(many, '\n'), 17);
  EXPECT_NE(many.back(), '\n');
}

TEST(Dataset, LabelsAreThoseOfTheImages) {
  for (const std::string_view name : {"digits", "made-cifar"}) {
    const auto data = open_dataset({.data = std::string(name), .train_size = 20}, Split::train);
    std::vector<float> image(data->shape().size());
    for (std::size_t i = 0; i < data->size(); ++i) {
      std::int64_t label = -1;
      const std::int64_t before = data->label(i);
      data->read(i, image, label);
      EXPECT_EQ(before, label);
      EXPECT_EQ(data->label(i), label) << "after it was drawn";
    }
  }
}

TEST(OwnExamples, AreGoneRoundWithoutEnd) {
  const std::vector<std::uint32_t> own{3, 5, 7, 11, 13};
  ExampleOrder order(24, {.rank = 1, .ranks = 2, .batch = 4}, own);
  EXPECT_EQ(order.epochs().each, 3U) << "by the mean number";
  std::vector<std::uint32_t> seen;
  for (std::uint64_t position = 0; position < 10; ++position) {
    const auto batch = order.at(position);
    ASSERT_EQ(batch.size(), 4U);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(order.round(position, i), (position * 4 + i) / 5);
    seen.insert(seen.end(), batch.begin(), batch.end());
  }
  std::set<std::vector<std::uint32_t>> rounds;
  for (std::size_t begin = 0; begin < seen.size(); begin += 5) {
    std::vector<std::uint32_t> round(seen.begin() + static_cast<std::ptrdiff_t>(begin),
                                     seen.begin() + static_cast<std::ptrdiff_t>(begin + 5));
    rounds.insert(round);
    std::ranges::sort(round);
    EXPECT_EQ(round, own);
  }
  EXPECT_GT(rounds.size(), 4U) << "in another order each time";
  for (const std::uint64_t position : {7, 2, 9, 0}) {  // in any order
    const auto batch = order.at(position);
    EXPECT_TRUE(std::equal(batch.begin(), batch.end(), seen.begin() + static_cast<std::ptrdiff_t>(position * 4)));
  }
}

TEST(OwnExamples, RanksHaveDifferentOrders) {
  std::vector<std::uint32_t> own(32);
  std::iota(own.begin(), own.end(), 0U);
  ExampleOrder first(64, {.rank = 0, .ranks = 2, .batch = 32}, own),
      second(64, {.rank = 1, .ranks = 2, .batch = 32}, own);
  EXPECT_FALSE(std::ranges::equal(first.at(0), second.at(0)));
}

}  // namespace
}  // namespace sotto
