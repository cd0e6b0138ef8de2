// gather_held: each element is averaged over the ranks that sent it.
#include <gtest/gtest.h>

#include "sotto/aggregate/aggregators.h"
#include "sotto/aggregate/recipe.h"
#include "tests/aggregate/group.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::average_all, test::message_of, test::sample_gradient, test::sample_layout;

using Values = std::vector<std::vector<float>>;  // by rank

Values average(const std::string& name, const std::string& method, const Layout& layout, Values values) {
  const auto buckets = plan_buckets(layout, 1200);
  run_threads(static_cast<int>(values.size()), 20s, [&](Communicator& communicator) {
    const auto aggregator = make_aggregator(read_recipe(method, name), buckets, communicator);
    average_all(*aggregator, buckets, values[static_cast<std::size_t>(communicator.rank())], 0, communicator);
  });
  return values;
}

TEST(GatherHeld, DividesByTheRanksThatSentAnElement) {
  const Layout layout({{"w", 0, {2, 3}}, {"bias", 6, {2}}}, 8);
  const Values given{{4, 1, 0, -3, 0, 0, 3, 0}, {2, 0, 0, 0, -8, 1, 6, 0}, {6, 0, 5, 2, 1, 0, 3, 0}};
  const std::vector<float> wanted{4, 0, 5, -3, -8, 0, 4, 0};  // the dense segment is in every message
  for (const auto& found : average("gather_held", "topk(count=2)", layout, given)) {
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_FLOAT_EQ(found[i], wanted[i]) << i;
  }
}

TEST(GatherHeld, MakesTheSameBitsOnEveryRank) {
  for (const char* method : {"ef | topk(0.1) | qsgd(bits=4)", "ef | block(5, 0.2)", "demo-dct",
                             "ef | fft(16) | topk(0.1) | f16 | zstd", "ef | dct(8) | topk(0.2, scope=chunk) | rans"}) {
    for (const int ranks : {1, 2, 4}) {
      Values values;
      for (int rank = 0; rank < ranks; ++rank) values.push_back(sample_gradient(sample_layout(), rank, 0));
      values = average("gather_held", method, sample_layout(), values);
      for (const auto& found : values) EXPECT_EQ(found, values.front()) << method;
    }
  }
}

// With one rank, the mean is what that rank sent. Where all ranks choose the same elements, it is the mean over all.
TEST(GatherHeld, IsGatherWhereAllSendTheSameElements) {
  for (const auto& [method, ranks] :
       {std::pair{"topk(0.1)", 1}, {"dct2(4) | topk(count=3, scope=chunk)", 1}, {"randomk(0.2)", 3}}) {
    Values values;
    for (int rank = 0; rank < ranks; ++rank) values.push_back(sample_gradient(sample_layout(), rank, 0));
    const auto wanted = average("gather", method, sample_layout(), values);
    const auto found = average("gather_held", method, sample_layout(), values);
    for (std::size_t i = 0; i < wanted[0].size(); ++i) EXPECT_NEAR(found[0][i], wanted[0][i], 1e-5F) << method << i;
  }
}

TEST(GatherHeld, RefusesWhatChoosesNoCommonElements) {
  const auto buckets = plan_buckets(sample_layout(), 1200);
  for (const char* method :
       {"none", "qsgd", "topk(1)", "svd | topk(0.5)", "atomo(5%)", "randomk(0.1, unbiased=true)"}) {
    EXPECT_NE(gather_held_suits(*make_codec(read_recipe(method).stages), buckets), "") << method;
  }
  const auto refusal = message_of([&] { check_aggregator(read_recipe("qsgd", "gather_held"), buckets); });
  EXPECT_NE(refusal.find("aggregator gather_held: `qsgd("), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("use gather"), std::string::npos) << refusal;
}

}  // namespace
}  // namespace sotto
