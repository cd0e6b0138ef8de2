#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "sotto/capi/gradient_averager.h"
#include "sotto/capi/sotto.h"
#include "sotto/comm/emulated/threads.h"
#include "tests/capi/ranks.h"

namespace sotto {
namespace {

constexpr std::array<std::int64_t, 2> weight_shape{30, 20};
constexpr std::array<std::int64_t, 1> bias_shape{30};
constexpr std::array<sotto_parameter, 3> layers{{{"weight", SOTTO_F32, 2, weight_shape.data()},
                                                 {"bias", SOTTO_F32, 1, bias_shape.data()},
                                                 {"head", SOTTO_F32, 2, weight_shape.data()}}};
constexpr std::array<std::size_t, 3> sizes{600, 30, 600}, all_parameters{0, 1, 2};

float element(int rank, std::uint64_t step, std::size_t parameter, std::size_t i) {
  return std::sin(static_cast<float>(rank + 1) * static_cast<float>(i + 1) + static_cast<float>(step * 3 + parameter));
}

using Gradients = std::array<std::vector<float>, 3>;
Gradients gradients(int rank, std::uint64_t step) {
  Gradients all;
  for (std::size_t p = 0; p < 3; ++p) {
    for (std::size_t i = 0; i < sizes[p]; ++i) all[p].push_back(element(rank, step, p, i));
  }
  return all;
}

sotto_averager* averager(sotto_group* group, const char* codec, const sotto_averager_options* options = nullptr) {
  const sotto_phase phase{0, codec, nullptr};
  const sotto_rule rule{nullptr, all_parameters.data(), all_parameters.size(), &phase, 1};
  sotto_averager* made = nullptr;
  EXPECT_EQ(sotto_averager_create(group, layers.data(), layers.size(), &rule, 1, options, &made), SOTTO_OK)
      << sotto_last_error(0);
  return made;
}

// Posts each gradient as a bucket, in this order.
sotto_status step(sotto_averager* averager, Gradients& values, std::span<const std::size_t> order) {
  EXPECT_EQ(sotto_averager_begin(averager, 1, nullptr), SOTTO_OK);
  for (const std::size_t p : order) {
    const sotto_gradient gradient{p, values[p].data()};
    const sotto_bucket bucket{.gradients = &gradient, .count = 1};
    EXPECT_EQ(sotto_averager_post(averager, &bucket), SOTTO_OK) << sotto_last_error(0);
  }
  EXPECT_EQ(sotto_averager_end(averager), SOTTO_OK);
  return sotto_averager_wait(averager);
}

// The means are those of the library's averager over threads, whatever the order in which gradients come.
TEST(CapiAverager, AveragesAsTheLibraryDoes) {
  constexpr int ranks = 3;
  constexpr std::uint64_t steps = 3;
  for (const char* codec : {"none", "ef | topk(0.1)", "qsgd(4) | rans", "power(2)"}) {
    std::array<std::array<Gradients, steps>, ranks> wanted, got;
    run_threads(ranks, std::chrono::seconds(60), [&](Communicator& communicator) {
      std::vector<Parameter> parameters;
      for (const auto& one : layers)
        parameters.push_back({one.name, {one.shape, one.shape + one.dimensions}, DType::f32});
      const AveragerOptions options{.lanes = {{"codec", {0, 1, 2}, {{0, read_recipe(codec)}}}},
                                    .required_same = {{"propagate", "off"}}};
      const std::shared_ptr<Communicator> shared(&communicator, [](Communicator*) {});
      GradientAverager own(parameters, options, shared);
      for (std::uint64_t s = 0; s < steps; ++s) {
        const Gradients mine = gradients(communicator.rank(), s);
        own.start_step(1);
        for (std::size_t p = 0; p < 3; ++p) {
          std::ranges::copy(mine[p], own.values(p).begin());
          own.arrived(p);
        }
        own.run([&](std::size_t p) {
          const auto mean = own.values(p);
          wanted[static_cast<std::size_t>(communicator.rank())][s][p].assign(mean.begin(), mean.end());
        });
      }
    });
    test::run_groups(ranks, [&](sotto_group* group, int rank) {
      sotto_averager* own = averager(group, codec);
      std::array<std::size_t, 3> order{2, 1, 0};
      for (std::uint64_t s = 0; s < steps; ++s) {
        got[static_cast<std::size_t>(rank)][s] = gradients(rank, s);
        ASSERT_EQ(step(own, got[static_cast<std::size_t>(rank)][s], order), SOTTO_OK) << sotto_last_error(0);
        std::ranges::next_permutation(order);
      }
      sotto_stats stats{.bytes = sizeof(stats)};
      ASSERT_EQ(sotto_averager_stats(own, &stats), SOTTO_OK);
      EXPECT_TRUE(stats.steps == steps && stats.bytes_sent > 0 && stats.bytes_received > 0);
      EXPECT_EQ(stats.dense_bytes, steps * 1230 * 4 * 2 * (ranks - 1) / ranks);
      sotto_averager_free(own);
    });
    EXPECT_EQ(got, wanted) << codec;
  }
}

// Halves come back as halves: the mean of numbers that halves hold exactly.
TEST(CapiAverager, TakesHalvesAndScalesOfTheLoss) {
  for (const auto& [type, one] :
       {std::pair(SOTTO_F16, std::uint16_t{0x3C00}), std::pair(SOTTO_BF16, std::uint16_t{0x3F80})}) {
    test::run_groups(2, [&, type = type, one = one](sotto_group* group, int rank) {
      const std::array<std::int64_t, 1> shape{5};
      const sotto_parameter parameter{"p", type, 1, shape.data()};
      const std::size_t index = 0;
      const sotto_phase phase{0, "none", nullptr};
      const sotto_rule rule{nullptr, &index, 1, &phase, 1};
      sotto_averager* own = nullptr;
      ASSERT_EQ(sotto_averager_create(group, &parameter, 1, &rule, 1, nullptr, &own), SOTTO_OK) << sotto_last_error(0);
      std::array<std::uint16_t, 5> values{};
      values.fill(rank == 0 ? one : static_cast<std::uint16_t>(one | 0x8000));  // 1 and -1
      values[3] = one;
      const sotto_gradient gradient{0, values.data()};
      const sotto_bucket bucket{.gradients = &gradient, .count = 1};
      EXPECT_EQ(sotto_averager_begin(own, 1024, nullptr), SOTTO_OK);
      EXPECT_EQ(sotto_averager_post(own, &bucket), SOTTO_OK);
      EXPECT_EQ(sotto_averager_end(own), SOTTO_OK);
      ASSERT_EQ(sotto_averager_wait(own), SOTTO_OK) << sotto_last_error(0);
      EXPECT_EQ(values, (std::array<std::uint16_t, 5>{0, 0, 0, one, 0}));
      sotto_averager_free(own);
    });
  }
}

struct Calls {
  std::atomic<int> awaited = 0, done = 0;
  std::atomic<sotto_status> status = SOTTO_OK;
  sotto_bucket bucket(const sotto_gradient* gradients, std::size_t count) {
    return {.gradients = gradients,
            .count = count,
            .await = [](void* self) { ++static_cast<Calls*>(self)->awaited; },
            .done =
                [](void* self, sotto_status result, const char* text) {
                  EXPECT_EQ(text == nullptr, result == SOTTO_OK);
                  static_cast<Calls*>(self)->status = result;
                  ++static_cast<Calls*>(self)->done;
                },
            .context = this};
  }
};

TEST(CapiAverager, CallsBackOncePerBucket) {
  test::run_groups(2, [](sotto_group* group, int rank) {
    sotto_averager* own = averager(group, "none");
    Gradients values = gradients(rank, 0);
    Calls first, second;
    const std::array<sotto_gradient, 2> two{{{2, values[2].data()}, {0, values[0].data()}}};
    const sotto_gradient one{1, values[1].data()};
    EXPECT_EQ(sotto_averager_begin(own, 1, nullptr), SOTTO_OK);
    const sotto_bucket a = first.bucket(two.data(), 2), b = second.bucket(&one, 1);
    EXPECT_EQ(sotto_averager_post(own, &a), SOTTO_OK);
    EXPECT_EQ(sotto_averager_post(own, &b), SOTTO_OK);
    EXPECT_EQ(sotto_averager_end(own), SOTTO_OK);
    ASSERT_EQ(sotto_averager_wait(own), SOTTO_OK) << sotto_last_error(0);
    for (const Calls* calls : {&first, &second}) {
      EXPECT_TRUE(calls->awaited == 1 && calls->done == 1 && calls->status == SOTTO_OK);
    }
    std::string methods;
    const sotto_sink sink{[](void* to, const void* data, std::size_t size) {
                            static_cast<std::string*>(to)->assign(static_cast<const char*>(data), size);
                          },
                          &methods};
    EXPECT_EQ(sotto_averager_methods(own, sink), SOTTO_OK);
    EXPECT_NE(methods.find("all_reduce"), methods.npos) << methods;
    sotto_averager_free(own);
  });
}

// A value that is not finite on one rank is an error on both, of every bucket and of every later step.
TEST(CapiAverager, AnErrorEndsTheStepOnAllRanks) {
  test::run_groups(2, [](sotto_group* group, int rank) {
    sotto_averager* own = averager(group, "qsgd(4)");
    Gradients values = gradients(rank, 0);
    if (rank == 1) values[1][7] = std::numeric_limits<float>::infinity();
    Calls calls;
    EXPECT_EQ(sotto_averager_begin(own, 1, nullptr), SOTTO_OK);
    for (const std::size_t p : {2U, 1U, 0U}) {
      const sotto_gradient gradient{p, values[p].data()};
      const sotto_bucket bucket = calls.bucket(&gradient, 1);
      EXPECT_EQ(sotto_averager_post(own, &bucket), SOTTO_OK);
    }
    EXPECT_EQ(sotto_averager_end(own), SOTTO_OK);
    const sotto_status status = sotto_averager_wait(own);
    EXPECT_EQ(status, rank == 1 ? SOTTO_NUMERIC_ERROR : SOTTO_COMM_ERROR) << sotto_last_error(0);
    EXPECT_EQ(calls.done, 3);
    EXPECT_EQ(calls.status, status);
    Gradients again = gradients(rank, 1);
    EXPECT_EQ(step(own, again, std::array<std::size_t, 3>{2, 1, 0}), status);
    EXPECT_EQ(again, gradients(rank, 1)) << "nothing is written after an error";
    sotto_averager_free(own);
  });
}

TEST(CapiAverager, WithPropagateAnOverflowIsNoError) {
  test::run_groups(2, [](sotto_group* group, int rank) {
    const sotto_averager_options options{.bytes = sizeof(options), .seed = 1, .propagate = 1};
    sotto_averager* own = averager(group, "ef | topk(0.1)", &options);
    Gradients values = gradients(rank, 0);
    if (rank == 1) values[1][7] = std::numeric_limits<float>::infinity();
    ASSERT_EQ(step(own, values, std::array<std::size_t, 3>{2, 1, 0}), SOTTO_OK) << sotto_last_error(0);
    for (const auto& one : values) EXPECT_TRUE(std::ranges::all_of(one, [](float x) { return std::isnan(x); }));
    values = gradients(rank, 1);
    ASSERT_EQ(step(own, values, std::array<std::size_t, 3>{2, 1, 0}), SOTTO_OK) << sotto_last_error(0);
    for (const auto& one : values) EXPECT_TRUE(std::ranges::all_of(one, [](float x) { return std::isfinite(x); }));
    sotto_averager_free(own);
  });
}

TEST(CapiAverager, NamesGradientsThatDidNotComeOrCameTwice) {
  for (const std::vector<std::size_t>& order : {std::vector<std::size_t>{2, 0}, {2, 2, 1, 0}}) {
    test::run_groups(2, [&](sotto_group* group, int rank) {
      sotto_averager* own = averager(group, "none");
      Gradients values = gradients(rank, 0);
      EXPECT_EQ(step(own, values, order), SOTTO_CONFIG_ERROR) << sotto_last_error(0);
      EXPECT_NE(std::string(sotto_last_error(0))
                    .find(order.size() == 2 ? "no gradient was posted of bias" : "head was posted twice"),
                std::string::npos)
          << sotto_last_error(0);
      sotto_averager_free(own);
    });
  }
}

// Ranks that differ hear of it at once, and in what.
TEST(CapiAverager, RanksMustWantTheSame) {
  test::run_groups(2, [](sotto_group* group, int rank) {
    const sotto_phase phase{0, rank == 0 ? "qsgd(4)" : "qsgd(2)", nullptr};
    const sotto_rule rule{nullptr, all_parameters.data(), all_parameters.size(), &phase, 1};
    sotto_averager* made = nullptr;
    EXPECT_EQ(sotto_averager_create(group, layers.data(), layers.size(), &rule, 1, nullptr, &made), SOTTO_CONFIG_ERROR);
    EXPECT_NE(std::string(sotto_last_error(0)).find("qsgd"), std::string::npos) << sotto_last_error(0);
  });
}

TEST(CapiAverager, RefusesRulesThatAreNone) {
  test::run_groups(1, [](sotto_group* group, int /*rank*/) {
    const auto create = [&](std::vector<std::size_t> parameters, std::vector<sotto_phase> phases) {
      const sotto_rule rule{"codec", parameters.data(), parameters.size(), phases.data(), phases.size()};
      sotto_averager* made = nullptr;
      return sotto_averager_create(group, layers.data(), layers.size(), &rule, 1, nullptr, &made);
    };
    EXPECT_EQ(create({0, 1}, {{0, "none", nullptr}}), SOTTO_CONFIG_ERROR);
    EXPECT_EQ(create({0, 1, 1, 2}, {{0, "none", nullptr}}), SOTTO_CONFIG_ERROR);
    EXPECT_EQ(create({0, 1, 3}, {{0, "none", nullptr}}), SOTTO_CONFIG_ERROR);
    EXPECT_EQ(create({0, 1, 2}, {}), SOTTO_CONFIG_ERROR);
    EXPECT_EQ(create({0, 1, 2}, {{3, "none", nullptr}}), SOTTO_CONFIG_ERROR);
    EXPECT_EQ(create({0, 1, 2}, {{0, "none", nullptr}, {0, "none", nullptr}}), SOTTO_CONFIG_ERROR);
    EXPECT_EQ(create({0, 1, 2}, {{0, nullptr, nullptr}}), SOTTO_CONFIG_ERROR);
    EXPECT_EQ(create({0, 1, 2}, {{0, "nonsense", nullptr}}), SOTTO_CONFIG_ERROR);
    EXPECT_EQ(create({0, 1, 2}, {{0, "none", "nonsense"}}), SOTTO_CONFIG_ERROR);
    sotto_averager* made = nullptr;
    EXPECT_EQ(sotto_averager_create(group, nullptr, 0, nullptr, 0, nullptr, &made), SOTTO_CONFIG_ERROR);
    EXPECT_EQ(sotto_averager_begin(nullptr, 1, nullptr), SOTTO_CONFIG_ERROR);
    EXPECT_EQ(sotto_averager_stats(nullptr, nullptr), SOTTO_CONFIG_ERROR);
    sotto_averager_free(nullptr);
  });
}

// What was posted in a step that does not end is given back.
TEST(CapiAverager, GivesBucketsBackWhenItIsFreed) {
  Calls calls;
  Gradients values = gradients(0, 0);
  test::run_groups(2, [&](sotto_group* group, int rank) {
    sotto_averager* own = averager(group, "none");
    if (rank == 0) {
      const sotto_gradient gradient{0, values[0].data()};
      const sotto_bucket bucket = calls.bucket(&gradient, 1);
      EXPECT_EQ(sotto_averager_begin(own, 1, nullptr), SOTTO_OK);
      EXPECT_EQ(sotto_averager_post(own, &bucket), SOTTO_OK);
    }
    sotto_averager_free(own);
  });
  EXPECT_EQ(calls.done, 1);
  EXPECT_EQ(calls.status, SOTTO_CONFIG_ERROR);
}

// What the fuzzer found.
TEST(CapiAverager, RefusesWhatComesOutOfOrder) {
  test::run_groups(1, [](sotto_group* group, int) {
    sotto_averager* const own = averager(group, "none");
    const sotto_former former{1, std::numeric_limits<int>::max(), nullptr, 0};
    EXPECT_EQ(sotto_averager_spread(own, 0, &former, 1), SOTTO_CONFIG_ERROR);
    const sotto_bucket empty{.gradients = nullptr, .count = 0};
    EXPECT_EQ(sotto_averager_post(own, &empty), SOTTO_OK);
    EXPECT_EQ(sotto_averager_wait(own), SOTTO_CONFIG_ERROR);
    EXPECT_STREQ(sotto_last_error(0), "a gradient was posted before the first step began");
    sotto_averager_free(own);
  });
}

TEST(CapiAverager, FinishesAnEmptyBucketAtOnce) {
  test::run_groups(1, [](sotto_group* group, int) {
    sotto_averager* const own = averager(group, "none");
    std::atomic<int> done = 0;
    const sotto_bucket empty{
        .gradients = nullptr,
        .count = 0,
        .done = [](void* context, sotto_status status, const char*) {
          EXPECT_EQ(status, SOTTO_OK);
          ++*static_cast<std::atomic<int>*>(context);
        },
        .context = &done};
    EXPECT_EQ(sotto_averager_begin(own, 1, nullptr), SOTTO_OK);
    EXPECT_EQ(sotto_averager_post(own, &empty), SOTTO_OK);
    EXPECT_EQ(sotto_averager_wait(own), SOTTO_OK) << sotto_last_error(0);
    EXPECT_EQ(done, 1);
    sotto_averager_free(own);
  });
}

}  // namespace
}  // namespace sotto
