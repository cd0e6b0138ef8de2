#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "sotto/capi/sotto.h"
#include "tests/capi/ranks.h"

namespace sotto {
namespace {

TEST(CapiGroup, AggregatesOverAllRanks) {
  for (const int ranks : {1, 2, 3, 5}) {
    test::run_groups(ranks, [&](sotto_group* group, int rank) {
      EXPECT_TRUE(sotto_group_rank(group) == rank && sotto_group_ranks(group) == ranks);
      EXPECT_EQ(sotto_group_encrypts(group), 0) << "all run on one host";
      const auto result = [&](sotto_op op, double denominator = 0) {
        std::vector<float> values{static_cast<float>(rank), 1};
        EXPECT_EQ(sotto_aggregate(group, values.data(), values.size(), op, denominator), SOTTO_OK)
            << sotto_last_error(0);
        return values;
      };
      const auto n = static_cast<float>(ranks), sum = n * (n - 1) / 2;
      EXPECT_EQ(result(SOTTO_SUM), (std::vector<float>{sum, n}));
      EXPECT_EQ(result(SOTTO_AVG), (std::vector<float>{sum / n, 1}));
      EXPECT_EQ(result(SOTTO_AVG, 4), (std::vector<float>{sum / 4, n / 4}));
      EXPECT_EQ(result(SOTTO_MIN), (std::vector<float>{0, 1}));
      EXPECT_EQ(result(SOTTO_MAX), (std::vector<float>{n - 1, 1}));
      EXPECT_EQ(sotto_aggregate(group, nullptr, 2, SOTTO_SUM, 0), SOTTO_CONFIG_ERROR);
      EXPECT_EQ(sotto_aggregate(nullptr, nullptr, 0, SOTTO_SUM, 0), SOTTO_CONFIG_ERROR);
      EXPECT_EQ(sotto_aggregate(group, nullptr, 0, static_cast<sotto_op>(4), 0), SOTTO_CONFIG_ERROR);
    });
  }
}

TEST(CapiGroup, SeveralMeetInOneStore) {
  test::SharedStore store;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      std::array<sotto_group*, 3> groups{};
      for (sotto_group*& group : groups) {
        const sotto_store calls = store.calls();
        ASSERT_EQ(sotto_group_create(&calls, rank, 3, nullptr, &group), SOTTO_OK) << sotto_last_error(0);
      }
      for (sotto_group* group : groups) {
        float one = 1;
        EXPECT_EQ(sotto_aggregate(group, &one, 1, SOTTO_SUM, 0), SOTTO_OK) << sotto_last_error(0);
        EXPECT_EQ(one, 3);
        sotto_group_free(group);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  while (store.released() < 9) std::this_thread::yield();
}

TEST(CapiGroup, NamesRanksThatDoNotCome) {
  test::SharedStore store;
  const sotto_store calls = store.calls();
  const sotto_group_options options{.bytes = sizeof(options), .timeout = 0.3};
  sotto_group* group = nullptr;
  EXPECT_EQ(sotto_group_create(&calls, 0, 2, &options, &group), SOTTO_COMM_ERROR);
  EXPECT_NE(std::string(sotto_last_error(0)).find("rank 1 did not come within 0.3 s"), std::string::npos)
      << sotto_last_error(0);
  EXPECT_EQ(group, nullptr);
  while (store.released() == 0) std::this_thread::yield();
}

TEST(CapiGroup, AStoreThatIsGoneIsAnError) {
  test::SharedStore store;
  store.close();
  const sotto_store calls = store.calls();
  sotto_group* group = nullptr;
  EXPECT_EQ(sotto_group_create(&calls, 0, 2, nullptr, &group), SOTTO_COMM_ERROR) << sotto_last_error(0);
  while (store.released() == 0) std::this_thread::yield();  // a request may still run on its own thread
}

TEST(CapiGroup, ReasonsReachTheOthers) {
  test::run_groups(3, [](sotto_group* group, int rank) {
    if (rank == 1) return sotto_group_give_up(group, "the data are bad");
    float one = 1;
    ASSERT_EQ(sotto_aggregate(group, &one, 1, SOTTO_SUM, 0), SOTTO_COMM_ERROR);
    EXPECT_NE(std::string(sotto_last_error(0)).find("the data are bad"), std::string::npos) << sotto_last_error(0);
  });
}

TEST(CapiGroup, RefusesWhatItCannotUse) {
  test::SharedStore store;
  sotto_group* group = nullptr;
  const auto create = [&](int rank, int ranks, const sotto_group_options& options) {
    const sotto_store calls = store.calls();
    return sotto_group_create(&calls, rank, ranks, &options, &group);
  };
  const sotto_group_options good{.bytes = sizeof(good)};
  EXPECT_EQ(create(2, 2, good), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(create(-1, 2, good), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(create(0, 0, good), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(create(0, 1, {.bytes = 1000}), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(create(0, 1, {.bytes = 0}), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(create(0, 1, {.bytes = sizeof(good), .timeout = -1}), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(create(0, 1, {.bytes = sizeof(good), .streams = 65}), SOTTO_CONFIG_ERROR);
  sotto_store calls = store.calls();
  calls.find = nullptr;
  EXPECT_EQ(sotto_group_create(&calls, 0, 1, nullptr, &group), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(sotto_group_create(nullptr, 0, 1, nullptr, &group), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(create(0, 1, {.bytes = sizeof(std::size_t)}), SOTTO_OK) << "a caller who knows no option";
  sotto_group_free(group);
  sotto_group_free(nullptr);
}

TEST(CapiGossip, ComesToTheMean) {
  test::run_groups(4, [](sotto_group* group, int rank) {
    sotto_gossiper* gossiper = nullptr;
    ASSERT_EQ(sotto_gossiper_create(group, "exponential", nullptr, "none", 1, 1, &gossiper), SOTTO_OK)
        << sotto_last_error(0);
    std::vector<float> values{static_cast<float>(rank), 8};
    double weight = 1;
    for (int round = 0; round < 60; ++round) {
      ASSERT_EQ(sotto_gossiper_mix(gossiper, values.data(), values.size(), &weight), SOTTO_OK) << sotto_last_error(0);
    }
    EXPECT_EQ(sotto_gossiper_round(gossiper), 60);
    EXPECT_NEAR(values[0] / weight, 1.5, 1e-5);
    EXPECT_NEAR(values[1] / weight, 8, 1e-5);
    weight = 0;
    EXPECT_EQ(sotto_gossiper_mix(gossiper, values.data(), values.size(), &weight), SOTTO_CONFIG_ERROR);
    sotto_gossiper_free(gossiper);
  });
}

TEST(CapiGossip, RefusesATopologyThatIsNone) {
  test::run_groups(1, [](sotto_group* group, int /*rank*/) {
    sotto_gossiper* gossiper = nullptr;
    EXPECT_EQ(sotto_gossiper_create(group, "circle", "uniform", "none", 1, 1, &gossiper), SOTTO_CONFIG_ERROR);
    EXPECT_NE(std::string(sotto_last_error(0)).find("circle"), std::string::npos) << sotto_last_error(0);
  });
}

}  // namespace
}  // namespace sotto
