// VectorAverager on a user's own gradient gives the numbers of the aggregator that the recipe names, in each step, to
// the last bit.
#include "sotto/aggregate/vector_averager.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <stdexcept>

#include "tests/aggregate/group.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::message_of;
using test::sample_gradient;

// Tensors that follow each other without gaps, as in a user's own vector.
Layout tight_layout() {
  return {{{"fc.weight", 0, {40, 37}}, {"fc.bias", 1480, {40}}, {"out.weight", 1520, {10, 40}}}, 1920};
}

const char* const recipes[] = {
    "none",    "ef | topk(0.01, dense=0)",     "qsgd(4) | rans", "ef | power(2)", "memsgd | topk(0.1, dense=0)",
    "signsgd", "ef | topk(0.1, dense=0) | f16"};

TEST(VectorAveraging, HasTheBitsOfTheAggregator) {
  for (const char* text : recipes) {
    for (const int ranks : {1, 2, 5}) {
      run_threads(ranks, 30s, [&](Communicator& communicator) {
        const Recipe recipe = read_recipe(text);
        const Layout layout = tight_layout();
        VectorAverager averager(communicator, layout, recipe, {.seed = 9});
        const std::vector<BucketPlan> whole{{0, 3, {0, layout.size()}, layout}};
        const auto aggregator = make_aggregator(recipe, whole, communicator);
        for (int step = 0; step < 4; ++step) {
          auto found = sample_gradient(layout, communicator.rank(), step), wanted = found;
          averager.average(found, test::sample_rate(step));
          test::average_all(*aggregator, whole, wanted, step, communicator, 9);
          EXPECT_EQ(found, wanted) << text << ", " << ranks << " ranks, step " << step;
        }
        EXPECT_EQ(averager.step(), 4U);
        EXPECT_EQ(averager.remark(), aggregator->remark());
      });
    }
  }
}

TEST(VectorAveraging, TakesAVectorByItsSize) {
  run_threads(3, 30s, [](Communicator& communicator) {
    const Layout layout({{"vector", 0, {5000}}}, 5000);
    const Recipe recipe = read_recipe("ef | topk(0.01)");
    VectorAverager by_size(communicator, 5000, recipe), by_layout(communicator, layout, recipe);
    for (int step = 0; step < 3; ++step) {
      auto found = sample_gradient(layout, communicator.rank(), step), wanted = found;
      by_size.average(found);
      by_layout.average(wanted);
      EXPECT_EQ(found, wanted);
    }
    EXPECT_GT(by_size.timings().encode, 0);
  });
}

TEST(VectorAveraging, SendsWhatTheRecipeLeft) {
  run_threads(2, 30s, [](Communicator& communicator) {
    constexpr std::size_t size = 100000;
    VectorAverager averager(communicator, size, read_recipe("ef | topk(0.01) | f16"));
    std::vector<float> gradient(size, 1.0F + static_cast<float>(communicator.rank()));
    averager.average(gradient);
    EXPECT_LT(communicator.traffic().bytes_sent, 4 * size / 40);
  });
}

TEST(VectorAveraging, LosesNothingOfASum) {
  run_threads(4, 30s, [](Communicator& communicator) {
    constexpr std::size_t size = 2000, steps = 300;
    VectorAverager averager(communicator, size, read_recipe("ef | topk(0.05)"));
    std::vector<double> sum(size);
    for (std::size_t step = 0; step < steps; ++step) {
      std::vector<float> gradient(size, static_cast<float>(communicator.rank()));
      averager.average(gradient);
      for (std::size_t i = 0; i < size; ++i) sum[i] += gradient[i];
    }
    // For each element, at most the gradients of the last twenty steps are still held back.
    for (const double value : sum) EXPECT_NEAR(value / steps, 1.5, 1.5 * 21 / steps);
  });
}

TEST(VectorAveraging, GoesOnFromItsState) {
  run_threads(2, 30s, [](Communicator& communicator) {
    const Layout layout = tight_layout();
    const Recipe recipe = read_recipe("ef | topk(0.01, dense=0) | qsgd(4)");
    VectorAverager first(communicator, layout, recipe), second(communicator, layout, recipe);
    for (int step = 0; step < 3; ++step) {
      auto gradient = sample_gradient(layout, communicator.rank(), step);
      first.average(gradient);
    }
    test::restore(second, test::state_of(first));
    EXPECT_EQ(second.step(), 3U);
    auto wanted = sample_gradient(layout, communicator.rank(), 3), found = wanted;
    first.average(wanted);
    second.average(found);
    EXPECT_EQ(found, wanted);
  });
}

TEST(VectorAveraging, FindsRanksThatDiffer) {
  const auto refused = [](std::size_t other_size, const char* other_recipe, std::uint64_t other_seed) {
    run_threads(3, 30s, [&](Communicator& communicator) {
      const bool other = communicator.rank() == 1;
      const std::size_t size = other ? other_size : 5000;
      VectorAverager averager(communicator, size, read_recipe(other ? other_recipe : "randomk(0.1)"),
                              {.seed = other ? other_seed : 1});
      std::vector<float> gradient(size, 1.0F);
      const std::string error = message_of([&] { averager.average(gradient); });
      EXPECT_NE(error.find("or with another recipe or seed"), std::string::npos) << error;
    });
  };
  refused(5001, "randomk(0.1)", 1);
  refused(5000, "randomk(0.1, unbiased=true)", 1);
  refused(5000, "randomk(0.1)", 2);
}

// A rank that continued alone would average its next gradient with the others' present one.
TEST(VectorAveraging, AnErrorIsFinalOnAllRanks) {
  for (const char* recipe : {"none", "ef | int8", "ef | topk(0.1, dense=0)", "topk(0.1, dense=0)", "ef | power(1)"}) {
    for (const char* aggregator : {"auto", "gather"}) {
      if (read_recipe(recipe).by_itself() && aggregator != std::string("auto")) continue;
      run_threads(3, 30s, [&](Communicator& communicator) {
        VectorAverager averager(communicator, tight_layout(), read_recipe(recipe, aggregator));
        auto gradient = sample_gradient(tight_layout(), communicator.rank(), 0);
        averager.average(gradient);
        gradient = sample_gradient(tight_layout(), communicator.rank(), 1);
        if (communicator.rank() == 1) gradient[7] = std::numeric_limits<float>::quiet_NaN();
        const std::string error = message_of([&] { averager.average(gradient); });
        EXPECT_NE(error.find("step 1"), std::string::npos) << recipe << ": " << error;
        gradient = sample_gradient(tight_layout(), communicator.rank(), 2);
        EXPECT_EQ(message_of([&] { averager.average(gradient); }), error) << recipe;
        EXPECT_EQ(message_of([&] { test::state_of(averager); }), error);
        EXPECT_EQ(averager.step(), 1U);
      });
    }
  }
}

// A state of another vector: its step can be read, its memory cannot.
class OtherState final : public StateVisitor {
 public:
  void visit(std::string_view /*name*/, std::vector<float>& /*values*/) override { throw FileError("another length"); }
  void visit(std::string_view /*name*/, std::vector<std::uint8_t>& /*bytes*/) override {}
  void visit(std::string_view /*name*/, std::uint64_t& value) override { value = 7; }
};

TEST(VectorAveraging, KeepsItsStepWhenAStateIsRefused) {
  run_threads(1, 30s, [](Communicator& communicator) {
    VectorAverager averager(communicator, 5000, read_recipe("ef | topk(0.1)", "gather"));
    OtherState other;
    EXPECT_EQ(message_of([&] { averager.visit_state(other); }), "another length");
    EXPECT_EQ(averager.step(), 0U);
  });
}

TEST(VectorAveraging, RefusesWhatDoesNotFit) {
  run_threads(1, 30s, [](Communicator& communicator) {
    EXPECT_NE(message_of([&] { VectorAverager(communicator, 10, read_recipe("topk(2)")); }), "");
    VectorAverager averager(communicator, 10, read_recipe("none"));
    std::vector<float> longer(11);
    EXPECT_THROW(averager.average(longer), std::invalid_argument);
    std::vector<float> bad(10, 0.0F);
    bad[7] = std::numeric_limits<float>::infinity();
    EXPECT_NE(message_of([&] { averager.average(bad); }).find("step 0"), std::string::npos);
    EXPECT_EQ(averager.step(), 0U);
  });
}

}  // namespace
}  // namespace sotto
