#include "sotto/aggregate/aggregators.h"
#include "sotto/aggregate/recipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "sotto/aggregate/sparse_choice.h"
#include "tests/aggregate/failure.h"
#include "tests/aggregate/group.h"
#include "tests/codec/fixture.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::average_all, test::message_of, test::sample_gradient, test::sample_layout, test::state_of;

using Gradient = std::function<std::vector<float>(int rank, int step)>;

// The results of a run, by rank.
struct SparseOutcome {
  std::vector<std::vector<std::vector<float>>> means;  // [rank][step]
  std::vector<test::State> states;
  std::vector<std::vector<Traffic>> traffic;  // [rank][step]: counted after that step
};

SparseOutcome run(int ranks, const std::string& method, const std::vector<BucketPlan>& buckets, int steps,
                  const Gradient& gradient, const char* aggregator = "sparse") {
  const auto count = static_cast<std::size_t>(ranks);
  SparseOutcome result{std::vector<std::vector<std::vector<float>>>(count), std::vector<test::State>(count),
                       std::vector<std::vector<Traffic>>(count)};
  run_threads(ranks, 60s, [&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    const auto made = make_aggregator(read_recipe(method, aggregator), buckets, communicator);
    for (int step = 0; step < steps; ++step) {
      auto values = gradient(communicator.rank(), step);
      average_all(*made, buckets, values, step, communicator);
      result.means[rank].push_back(std::move(values));
      result.traffic[rank].push_back(communicator.traffic());
    }
    result.states[rank] = state_of(*made);
  });
  return result;
}

std::vector<float> sample(int rank, int step) { return sample_gradient(sample_layout(), rank, step); }

void expect_same_sparse_bits(const SparseOutcome& run) {
  for (const auto& means : run.means) {
    for (std::size_t step = 0; step < means.size(); ++step) {
      const auto& first = run.means[0][step];
      ASSERT_EQ(0, std::memcmp(means[step].data(), first.data(), first.size() * sizeof(float))) << "step " << step;
    }
  }
}

// The sum of all gradients was applied, or is held in a memory. The steps include one in which ranks agree again.
TEST(Sparse, LosesNothingWithAnyCodecThatChooses) {
  const auto buckets = plan_buckets(sample_layout(), 1200);
  const int steps = 35;
  int tried = 0;
  std::size_t turn = 0;
  for (const std::string& expression : sotto::testing::listed_codecs()) {
    const auto codec = make_codec(read_stages(expression));
    if (!sparse_suits(*codec, buckets).empty()) continue;
    ++tried;
    const int ranks = std::array{1, 2, 3, 4, 7}.at(turn++ % 5);
    SCOPED_TRACE(expression + ", ranks " + std::to_string(ranks));
    const SparseOutcome result = run(ranks, "ef | " + expression, buckets, steps, sample);
    expect_same_sparse_bits(result);
    auto cleared = result.means[0].back();
    sample_layout().clear_padding(cleared);
    EXPECT_EQ(result.means[0].back(), cleared);
    std::vector<double> found(sample_layout().size()), wanted(found.size());
    float largest = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto& held = result.states[static_cast<std::size_t>(rank)].floats.at("memory.ef");
      std::size_t at = 0;
      for (const BucketPlan& plan : buckets) {
        for (std::size_t i = 0; i < plan.range.size(); ++i, ++at) {
          found[plan.range.begin + i] += held[at] / static_cast<double>(ranks);
          largest = std::max(largest, std::abs(held[at]));
        }
      }
      for (int step = 0; step < steps; ++step) {
        const auto values = sample(rank, step);
        for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += values[i] / static_cast<double>(ranks);
      }
    }
    for (const auto& mean : result.means[0]) {
      for (std::size_t i = 0; i < found.size(); ++i) found[i] += mean[i];
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 1e-4 + 4e-6 * largest) << i;
  }
  EXPECT_GE(tried, sotto::testing::is_sample ? 3 : 10);
}

TEST(Sparse, IsTheExactMeanWhereAllElementsAreChosen) {
  const auto buckets = plan_buckets(sample_layout(), 1200);
  for (const int ranks : {1, 2, 3, 5, 9}) {
    const SparseOutcome result = run(ranks, "topk(1)", buckets, 1, sample);
    expect_same_sparse_bits(result);
    for (std::size_t i = 0; i < sample_layout().size(); ++i) {
      double wanted = 0;
      for (int rank = 0; rank < ranks; ++rank) wanted += sample(rank, 0)[i] / static_cast<double>(ranks);
      ASSERT_NEAR(result.means[0][0][i], wanted, 2e-6) << ranks;
    }
  }
}

// A vector of one segment. Its entries are spread over it, or crowd in a small part.
constexpr std::size_t length = 20000;
Layout long_layout() {
  Layout layout;
  layout.append("w", {100, 200});
  layout.append("b", {64});
  return layout;
}
std::vector<float> crowded(int rank, int step) {
  auto values = sample_gradient(long_layout(), rank, step);
  for (std::size_t i = 0; i < length; ++i) values[i] *= i >= 3000 && i < 3600 ? 1.0F : 1e-3F;
  return values;
}
std::vector<float> spread(int rank, int step) { return sample_gradient(long_layout(), rank, step); }

// Of all sums of chosen elements, the k largest are kept, k being the number that each rank chose. Biases go whole.
TEST(Sparse, KeepsTheLargestSumsOfTheWholeVector) {
  const auto buckets = plan_buckets(long_layout(), 1U << 20);
  const std::size_t k = 400;
  for (const Gradient& gradient : {Gradient(spread), Gradient(crowded)}) {
    for (const int ranks : {2, 3, 8}) {
      std::vector<float> sums(length);
      std::size_t chosen = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        auto values = gradient(rank, 0);
        auto magnitudes = values;
        for (float& m : magnitudes) m = std::abs(m);
        std::nth_element(magnitudes.begin(), magnitudes.begin() + k - 1, magnitudes.begin() + length, std::greater<>());
        for (std::size_t i = 0; i < length; ++i) {
          if (std::abs(values[i]) < magnitudes[k - 1]) continue;
          sums[i] += 1.0F / static_cast<float>(ranks) * values[i];
          ++chosen;
        }
      }
      ASSERT_EQ(chosen, k * static_cast<std::size_t>(ranks));
      const SparseOutcome result = run(ranks, "topk(0.02)", buckets, 1, gradient);
      const auto& mean = result.means[0][0];
      std::size_t kept = 0;
      float smallest = std::numeric_limits<float>::infinity(), largest = 0;
      for (std::size_t i = 0; i < length; ++i) {
        if (mean[i] != 0) {
          ASSERT_EQ(mean[i], sums[i]);
          ++kept;
          smallest = std::min(smallest, std::abs(mean[i]));
        } else {
          largest = std::max(largest, std::abs(sums[i]));
        }
      }
      EXPECT_LE(largest, smallest) << ranks;
      EXPECT_GE(kept, k) << ranks;
      EXPECT_LE(kept, k * 105 / 100) << "a threshold of 8 bits, " << ranks;
      for (std::size_t i = 0; i < 64; ++i) EXPECT_NE(mean[length + i], 0);
    }
  }
}

// Later steps keep about as many, too, though ranks agree on a threshold only every 32 steps.
TEST(Sparse, TheThresholdFollows) {
  const auto buckets = plan_buckets(long_layout(), 1U << 20);
  const auto growing = [](int rank, int step) {
    auto values = spread(rank, step);
    for (float& value : values) value *= static_cast<float>(std::pow(1.05, step));
    return values;
  };
  const SparseOutcome result = run(4, "ef | topk(0.02)", buckets, 70, growing);
  for (std::size_t step = 0; step < 70; ++step) {
    const auto& mean = result.means[0][step];
    const auto kept = length - static_cast<std::size_t>(std::count(mean.begin(), mean.begin() + length, 0.0F));
    EXPECT_LE(kept, 800U) << "an owner sends at most twice its share";
    EXPECT_GE(kept, step > 40 ? 200U : 0U) << step;
  }
}

// Otherwise next to nothing would be sent until ranks agree again.
TEST(Sparse, AgreesAgainAfterAGradientOfZeros) {
  const auto buckets = plan_buckets(long_layout(), 1U << 20);
  const auto late = [](int rank, int step) {
    auto values = spread(rank, step);
    if (step < 2) std::ranges::fill(values, 0.0F);
    return values;
  };
  const SparseOutcome result = run(4, "ef | topk(0.02)", buckets, 4, late);
  for (const std::size_t step : {2U, 3U}) {
    const auto& mean = result.means[0][step];
    EXPECT_GE(length - static_cast<std::size_t>(std::count(mean.begin(), mean.begin() + length, 0.0F)), 200U) << step;
  }
}

// The bound of docs/algorithms/sparse.md: an entry is at most two numbers of 4 bytes each.
TEST(Sparse, WhatARankReceivesDoesNotGrowWithTheRanks) {
  const auto buckets = plan_buckets(long_layout(), 1U << 20);
  const std::size_t k = 400, dense = 64, bins = 3 * 256 + 1;
  for (const Gradient& gradient : {Gradient(spread), Gradient(crowded)}) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      const auto others = static_cast<std::size_t>(ranks) - 1;
      const SparseOutcome result = run(ranks, "ef | topk(0.02)", buckets, 4, gradient);
      for (const auto& of_rank : result.traffic) {
        for (std::size_t step = 0; step < of_rank.size(); ++step) {
          const auto received = of_rank[step].bytes_received - (step == 0 ? 0 : of_rank[step - 1].bytes_received);
          // A tenth is allowed because borders are multiples of 16 elements, and are estimated between two of 256
          // places.
          const std::size_t entries = (k + dense) * 11 / 10 + 2 * (k + static_cast<std::size_t>(ranks)) + dense;
          const std::size_t agreement = step == 0 ? 4 * bins * others : 0;
          EXPECT_LE(received, 8 * entries + 2 * others * (32 + 4) + agreement) << ranks << " ranks, step " << step;
          EXPECT_EQ(received == 0, ranks == 1);
        }
      }
    }
  }
}

// Regions are narrow where entries crowd, so no owner gets much more than its share.
TEST(Sparse, OwnersGetAboutAsManyEntriesEach) {
  const auto buckets = plan_buckets(long_layout(), 1U << 20);
  for (const Gradient& gradient : {Gradient(spread), Gradient(crowded)}) {
    const SparseOutcome result = run(8, "ef | topk(0.02)", buckets, 2, gradient);
    std::vector<double> received;
    for (const auto& of_rank : result.traffic) {
      received.push_back(static_cast<double>(of_rank[1].bytes_received - of_rank[0].bytes_received));
    }
    const double mean = std::accumulate(received.begin(), received.end(), 0.0) / 8;
    EXPECT_LT(*std::ranges::max_element(received), 1.25 * mean);
  }
}

TEST(Sparse, ResumesToTheSameBits) {
  const auto buckets = plan_buckets(sample_layout(), 1200);
  for (const char* method : {"ef | topk(0.1)", "ef | topk(0.1) | qsgd(bits=4)", "momentum | sampled_topk(0.2)",
                             "ef | topk(0.2) | clusters", "ef | threshold(1.0) | f16 | zstd"}) {
    for (const int ranks : {1, 3, 4}) {
      EXPECT_TRUE(test::resumes(ranks, "sparse", method, buckets)) << method << " on " << ranks;
    }
  }
}

TEST(Sparse, ABadCheckpointIsRefused) {
  const auto buckets = plan_buckets(sample_layout(), 1U << 20);
  run_threads(3, 20s, [&](Communicator& communicator) {
    const auto made = make_aggregator(read_recipe("ef | topk(0.1)", "sparse"), buckets, communicator);
    auto values = sample(communicator.rank(), 0);
    average_all(*made, buckets, values, 0, communicator);
    const test::State good = state_of(*made);
    for (const auto& [name, value] :
         std::vector<std::pair<const char*, std::uint64_t>>{{"sparse/0/left", 32},
                                                            {"sparse/0/kept", 0},
                                                            {"sparse/0/kept", ~std::uint64_t{0}},
                                                            {"sparse/0/border/0", 5000},
                                                            {"sparse/0/border/1", 1U << 30}}) {
      test::State bad = good;
      bad.numbers.at(name) = value;
      EXPECT_THROW(test::restore(*made, bad), FileError) << name;
    }
    test::restore(*made, good);
    EXPECT_EQ(state_of(*made), good);
  });
}

// A peer sends sums that cannot be counts.
TEST(Sparse, SumsThatCannotBeCountsAreRefused) {
  const auto buckets = plan_buckets(sample_layout(), 1U << 20);
  for (const float bad : {-200.0F, std::numeric_limits<float>::quiet_NaN(), 1e30F}) {
    run_threads(3, 20s, [&](Communicator& communicator) {
      if (communicator.rank() == 1) {
        std::vector<float> counts(RegionCounts::bins + 1);
        counts[1] = bad;
        communicator.all_reduce(std::span(counts));
        return;
      }
      auto values = sample(communicator.rank(), 0);
      const Bucket chosen{values, &buckets[0].layout, 0};
      std::vector<std::uint64_t> borders(2);
      RegionCounts votes;
      EXPECT_THROW(votes.borders(chosen, {}, communicator, borders), WireError) << bad;
    });
  }
}

TEST(Sparse, RefusesCodecsThatDoNotChooseElements) {
  const auto buckets = plan_buckets(sample_layout(), 1U << 20);
  for (const auto& [method, why] :
       std::vector<std::pair<const char*, const char*>>{{"qsgd(bits=4)", "chooses nothing"},
                                                        {"none", "chooses nothing"},
                                                        {"ef | dct(8) | topk(0.1)", "`dct` makes others"},
                                                        {"svd | atomo(s=2)", "`svd` makes others"},
                                                        {"ef | randomk(0.1)", "the same elements"},
                                                        {"atomo(10%)", "is unbiased"}}) {
    const auto text = message_of([&] { check_aggregator(read_recipe(method, "sparse"), buckets); });
    EXPECT_NE(text.find("codec with aggregator sparse: "), std::string::npos) << text;
    EXPECT_NE(text.find(why), std::string::npos) << method << ": " << text;
  }
}

// Exchanges of the second step, in which ranks agree on nothing. The first step has a sum, a round, two sums and a
// round.
constexpr std::array exchanges{5, 6};

TEST(Sparse, AFailedExchangeLosesNothing) {
  for (const int which : exchanges) {
    for (const char* method : {"ef | topk(0.1)", "ef | topk(0.1) | sign(block=16)"}) {
      const auto fail = [](std::span<Recv>) { throw CommError("the cable is out"); };
      EXPECT_EQ(test::second_step_fails("sparse", method, which, fail), "the cable is out") << which;
    }
  }
}

TEST(Sparse, ABadMessageIsRefusedAndNamesItsRank) {
  constexpr std::array methods{"ef | topk(0.1)", "topk(0.1) | qsgd(bits=4)", "ef | threshold(1.0) | f16"};
  for (const int which : exchanges) test::expect_bad_messages_are_refused("sparse", which, methods);
}

TEST(Sparse, AGradientThatIsNotFiniteIsAnErrorThatNamesTheTensor) {
  const auto buckets = plan_buckets(sample_layout(), 1U << 20);
  run_threads(2, 20s, [&](Communicator& communicator) {
    const auto made = make_aggregator(read_recipe("ef | topk(0.1)", "sparse"), buckets, communicator);
    auto values = sample(communicator.rank(), 4);
    values[sample_layout().segments()[2].offset + 7] = std::numeric_limits<float>::quiet_NaN();
    const auto text = message_of([&] { average_all(*made, buckets, values, 4, communicator); });
    EXPECT_NE(text.find("fc.weight"), std::string::npos) << text;
    EXPECT_NE(text.find("step 4"), std::string::npos) << text;
  });
}

}  // namespace
}  // namespace sotto
