#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "sotto/aggregate/recipe.h"
#include "sotto/core/error.h"
#include "tests/aggregate/failure.h"
#include "tests/aggregate/group.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::average_all, test::message_of, test::sample_layout;

// Each rank can encode its own vector, but the owner cannot encode the mean. All ranks learn of it, and nothing is
// lost.
TEST(ScatterReduce, AMeanThatIsTooLargeIsAnErrorOfAll) {
  Layout layout;
  layout.append("w", {64});
  const auto buckets = plan_buckets(layout, 1U << 20);
  std::vector<std::string> said(3);
  run_threads(3, 20s, [&](Communicator& communicator) {
    const auto aggregator =
        make_aggregator(read_recipe("randomk(0.9, unbiased=true, dense=0)", "scatter_reduce"), buckets, communicator);
    std::vector<float> values(layout.size());
    std::fill_n(values.begin(), 16, 3e38F);  // the chunk of rank 0; multiplied by 16 / 15 twice, it overflows
    const auto before = values;
    said[static_cast<std::size_t>(communicator.rank())] =
        message_of([&] { average_all(*aggregator, buckets, values, 7, communicator); });
    EXPECT_EQ(values, before);
  });
  EXPECT_NE(said[0].find("w"), std::string::npos) << said[0];
  EXPECT_EQ(said[0].find("could not encode"), std::string::npos) << said[0];
  for (int rank : {1, 2}) {
    const std::string& text = said[static_cast<std::size_t>(rank)];
    EXPECT_EQ(text.find("rank " + std::to_string(rank) + ": rank 0 could not encode at step 7: "), 0U) << text;
  }
}

TEST(ScatterReduce, AFailedExchangeLosesNothing) {
  for (const int which : {2, 3}) {
    for (const char* method : {"ef | topk(0.1)", "ef | sign(block=16)"}) {
      const auto fail = [](std::span<Recv>) { throw CommError("the cable is out"); };
      EXPECT_EQ(test::second_step_fails("scatter_reduce", method, which, fail), "the cable is out") << which;
    }
  }
}

TEST(ScatterReduce, ABadMessageIsRefusedAndNamesItsRank) {
  constexpr std::array methods{"ef | topk(0.1)", "qsgd(bits=4)", "ef | sign(block=16)"};
  for (const int which : {2, 3}) test::expect_bad_messages_are_refused("scatter_reduce", which, methods);
}

TEST(ScatterReduce, AMeanThatIsNotFiniteIsAnErrorThatNamesTheTensor) {
  const Layout layout = sample_layout();
  const auto buckets = plan_buckets(layout, 1U << 20);
  run_threads(2, 20s, [&](Communicator& communicator) {
    const auto aggregator = make_aggregator(read_recipe("ef | sign", "scatter_reduce"), buckets, communicator);
    std::vector<float> values(layout.size());
    values[layout.segments()[2].offset + 7] = std::numeric_limits<float>::quiet_NaN();
    const auto text = message_of([&] { average_all(*aggregator, buckets, values, 4, communicator); });
    EXPECT_NE(text.find("fc.weight"), std::string::npos) << text;
    EXPECT_NE(text.find("step 4"), std::string::npos) << text;
  });
}

}  // namespace
}  // namespace sotto
