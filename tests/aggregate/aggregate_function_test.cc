#include "sotto/aggregate/aggregate.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "sotto/comm/emulated/threads.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;

class Aggregate : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Aggregate, testing::Values(1, 2, 3, 4, 7, 8));

// Rank r has r + 1 in every element, so all results are exact.
TEST_P(Aggregate, PutsTogetherWhatAllRanksHave) {
  const int ranks = GetParam();
  const auto sum = static_cast<float>(ranks * (ranks + 1)) / 2;
  run_threads(ranks, 20s, [&](Communicator& communicator) {
    const auto result = [&](Op op, double denominator = 0) {
      std::vector<float> data(10000, static_cast<float>(communicator.rank() + 1));
      aggregate(data, op, communicator, denominator);
      for (const float value : data) EXPECT_EQ(value, data[0]);
      return data[0];
    };
    EXPECT_EQ(result(Op::sum), sum);
    EXPECT_EQ(result(Op::avg), sum / static_cast<float>(ranks));
    EXPECT_EQ(result(Op::avg, 0.5), sum / 0.5F);
    EXPECT_EQ(result(Op::min), 1);
    EXPECT_EQ(result(Op::max), static_cast<float>(ranks));
    aggregate({}, Op::avg, communicator);
  });
}

}  // namespace
}  // namespace sotto
