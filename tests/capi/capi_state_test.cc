#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "sotto/capi/sotto.h"
#include "tests/capi/ranks.h"

namespace sotto {
namespace {

// A state as a caller keeps it.
struct Kept {
  std::map<std::string, std::pair<sotto_value_kind, std::string>> values;
  sotto_visitor visitor() {
    return {[](void* self, const sotto_value* value) {
              const std::size_t size = value->kind == SOTTO_FLOATS ? 4 : value->kind == SOTTO_BYTES ? 1 : 8;
              const auto* data = static_cast<const char*>(value->data);
              static_cast<Kept*>(self)->values[value->name] = {
                  value->kind, data == nullptr ? "" : std::string(data, value->count * size)};
            },
            this};
  }
  std::vector<sotto_value> list() const {
    std::vector<sotto_value> all;
    for (const auto& [name, value] : values) {
      const auto& [kind, bytes] = value;
      all.push_back({name.c_str(), kind, bytes.data(),
                     kind == SOTTO_FLOATS  ? bytes.size() / 4
                     : kind == SOTTO_BYTES ? bytes.size()
                                           : 1});
    }
    return all;
  }
};

constexpr std::array<std::int64_t, 1> weight_form{5000};
constexpr sotto_parameter weights{"w", SOTTO_F32, 1, weight_form.data()};

sotto_averager* made_averager(sotto_group* group, const char* codec = "ef | topk(0.05)") {
  const std::size_t index = 0;
  const sotto_phase phase{0, codec, nullptr};
  const sotto_rule rule{nullptr, &index, 1, &phase, 1};
  sotto_averager* made = nullptr;
  EXPECT_EQ(sotto_averager_create(group, &weights, 1, &rule, 1, nullptr, &made), SOTTO_OK) << sotto_last_error(0);
  return made;
}

std::vector<float> sample(int rank, int step) {
  std::vector<float> values(5000);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((i * 37 + static_cast<std::size_t>(rank * 11 + step * 5)) % 101) - 50;
  }
  return values;
}

std::vector<float> mean(sotto_averager* own, int rank, int step) {
  auto values = sample(rank, step);
  const sotto_gradient one{0, values.data()};
  const sotto_bucket bucket{.gradients = &one, .count = 1};
  EXPECT_EQ(sotto_averager_begin(own, 1, nullptr), SOTTO_OK);
  EXPECT_EQ(sotto_averager_post(own, &bucket), SOTTO_OK);
  EXPECT_EQ(sotto_averager_end(own), SOTTO_OK);
  EXPECT_EQ(sotto_averager_wait(own), SOTTO_OK) << sotto_last_error(0);
  return values;
}

TEST(CapiState, AnAveragerContinuesToTheSameBits) {
  test::run_groups(2, [](sotto_group* group, int rank) {
    sotto_averager* first = made_averager(group);
    for (int step = 0; step < 3; ++step) mean(first, rank, step);
    Kept kept, shared;
    std::uint64_t at = 0;
    ASSERT_EQ(sotto_averager_state(first, &at, kept.visitor()), SOTTO_OK) << sotto_last_error(0);
    EXPECT_EQ(at, 3);
    ASSERT_FALSE(kept.values.empty());
    ASSERT_EQ(sotto_averager_shared(first, shared.visitor()), SOTTO_OK);
    for (const auto& [name, value] : shared.values) EXPECT_TRUE(kept.values.contains(name)) << name;
    const auto wanted = mean(first, rank, 3);
    sotto_averager_free(first);

    sotto_averager* second = made_averager(group);
    auto values = kept.list();
    ASSERT_EQ(sotto_averager_load(second, at, values.data(), values.size()), SOTTO_OK) << sotto_last_error(0);
    EXPECT_EQ(mean(second, rank, 3), wanted);

    // What does not fit changes nothing.
    Kept now;
    ASSERT_EQ(sotto_averager_state(second, &at, now.visitor()), SOTTO_OK);
    EXPECT_EQ(sotto_averager_load(second, 9, values.data(), values.size() - 1), SOTTO_FILE_ERROR)
        << sotto_last_error(0);
    values.push_back({"more", SOTTO_FLOATS, values[0].data, 1});
    EXPECT_EQ(sotto_averager_load(second, 9, values.data(), values.size()), SOTTO_FILE_ERROR) << sotto_last_error(0);
    values.back().kind = static_cast<sotto_value_kind>(7);
    EXPECT_EQ(sotto_averager_load(second, 9, values.data(), values.size()), SOTTO_CONFIG_ERROR);
    Kept after;
    std::uint64_t step = 0;
    ASSERT_EQ(sotto_averager_state(second, &step, after.visitor()), SOTTO_OK);
    EXPECT_TRUE(step == at && after.values == now.values);
    sotto_averager_free(second);
  });
}

// The memories of two ranks, taken over by one, owe as much to the mean as before.
TEST(CapiState, MemoriesGoToAnotherNumberOfRanks) {
  std::array<Kept, 2> kept;
  std::array<double, 2> owed{};
  test::run_groups(2, [&](sotto_group* group, int rank) {
    sotto_averager* own = made_averager(group);
    for (int step = 0; step < 3; ++step) mean(own, rank, step);
    std::uint64_t at = 0;
    ASSERT_EQ(sotto_averager_state(own, &at, kept[static_cast<std::size_t>(rank)].visitor()), SOTTO_OK);
    sotto_averager_free(own);
  });
  const auto sum = [](const Kept& one) {
    double total = 0;
    for (const auto& [name, value] : one.values) {
      std::vector<float> floats(value.second.size() / 4);
      if (value.first != SOTTO_FLOATS) continue;
      std::memcpy(floats.data(), value.second.data(), value.second.size());
      total += std::accumulate(floats.begin(), floats.end(), 0.0);
    }
    return total;
  };
  for (std::size_t rank = 0; rank < 2; ++rank) owed[rank] = sum(kept[rank]);
  test::run_groups(1, [&](sotto_group* group, int /*rank*/) {
    sotto_averager* own = made_averager(group);
    const auto first = kept[0].list(), second = kept[1].list();
    const std::array<sotto_former, 2> formers{
        {{0, 2, first.data(), first.size()}, {1, 2, second.data(), second.size()}}};
    ASSERT_EQ(sotto_averager_spread(own, 3, formers.data(), formers.size()), SOTTO_OK) << sotto_last_error(0);
    Kept now;
    std::uint64_t at = 0;
    ASSERT_EQ(sotto_averager_state(own, &at, now.visitor()), SOTTO_OK);
    EXPECT_EQ(at, 3);
    EXPECT_NE(owed[0], owed[1]);
    EXPECT_NEAR(sum(now), (owed[0] + owed[1]) / 2, 1e-3);
    const sotto_former wrong{3, 2, first.data(), first.size()};
    EXPECT_EQ(sotto_averager_spread(own, 3, &wrong, 1), SOTTO_CONFIG_ERROR);
    sotto_averager_free(own);
  });
}

// A model of two parameters, and an optimiser that moves each element by the same amount.
struct Model {
  static constexpr std::array<std::int64_t, 2> matrix{3, 5};
  static constexpr std::array<std::int64_t, 1> vector{7};
  static constexpr std::array<sotto_parameter, 2> parameters{
      {{"m", SOTTO_F32, 2, matrix.data()}, {"v", SOTTO_F32, 1, vector.data()}}};
  std::vector<float> values = std::vector<float>(22, 1);
  int writes = 0;

  sotto_model calls() {
    return {.read =
                [](void* self, float* const* into) {
                  const auto& own = static_cast<Model*>(self)->values;
                  std::copy_n(own.begin(), 15, into[0]);
                  std::copy_n(own.begin() + 15, 7, into[1]);
                  return 0;
                },
            .write =
                [](void* self, const float* const* from) {
                  auto& model = *static_cast<Model*>(self);
                  std::copy_n(from[0], 15, model.values.begin());
                  std::copy_n(from[1], 7, model.values.begin() + 15);
                  ++model.writes;
                  return 0;
                },
            .context = this};
  }
  void move(float by) {
    for (float& value : values) value += by;
  }
};

sotto_steps* steps(sotto_group* group, const char* algorithm, Model& model,
                   const sotto_steps_options* options = nullptr) {
  sotto_steps* made = nullptr;
  EXPECT_EQ(sotto_steps_create(group, algorithm, Model::parameters.data(), Model::parameters.size(), model.calls(),
                               options, &made),
            SOTTO_OK)
      << sotto_last_error(0);
  return made;
}

void take(sotto_steps* steps, Model& model, float by) {
  EXPECT_EQ(sotto_steps_begin(steps, 0.1), SOTTO_OK) << sotto_last_error(0);
  model.move(by);
  EXPECT_EQ(sotto_steps_end(steps), SOTTO_OK) << sotto_last_error(0);
}

TEST(CapiSteps, LocalStepsEndInTheMean) {
  test::run_groups(4, [](sotto_group* group, int rank) {
    Model model;
    sotto_steps* own = steps(group, "local(h=2)", model);
    take(own, model, static_cast<float>(rank));
    EXPECT_EQ(model.values, std::vector<float>(22, 1 + static_cast<float>(rank)));
    take(own, model, static_cast<float>(rank));
    EXPECT_EQ(model.values, std::vector<float>(22, 4)) << "1 and the mean of 0, 2, 4, 6";
    sotto_stats stats{.bytes = sizeof(stats)};
    ASSERT_EQ(sotto_steps_stats(own, &stats), SOTTO_OK);
    EXPECT_TRUE(stats.steps == 2 && stats.bytes_sent > 0);
    sotto_steps_free(own);
  });
}

TEST(CapiSteps, StatisticsBecomeTheirMeans) {
  test::run_groups(3, [](sotto_group* group, int rank) {
    Model model;
    sotto_steps* own = steps(group, "local(h=2)", model);
    std::vector<double> values{static_cast<double>(rank), 7}, same{std::numeric_limits<double>::infinity()};
    const std::array<sotto_statistic, 2> statistics{
        {{"mean", "(2)", "float32", values.data(), values.size()}, {"most", "()", "float32", same.data(), same.size()}}};
    EXPECT_EQ(sotto_steps_average(own, statistics.data(), 2), SOTTO_OK) << sotto_last_error(0);
    EXPECT_EQ(values, (std::vector<double>{1, 7}));
    EXPECT_EQ(same, std::vector{std::numeric_limits<double>::infinity()});
    std::vector<std::uint64_t> counts(3);
    take(own, model, 1);
    ASSERT_EQ(sotto_steps_progress(own, counts.data()), SOTTO_OK);
    EXPECT_EQ(counts, (std::vector<std::uint64_t>{1, 1, 1}));
    const sotto_statistic other{rank == 1 ? "variance" : "mean", "(2)", "float32", values.data(), values.size()};
    EXPECT_EQ(sotto_steps_average(own, &other, 1), SOTTO_CONFIG_ERROR);
    sotto_steps_free(own);
  });
}

TEST(CapiSteps, FailForGood) {
  test::run_groups(2, [](sotto_group* group, int rank) {
    Model model;
    sotto_steps* own = steps(group, "local(h=1)", model);
    EXPECT_EQ(sotto_steps_failed(own), 0);
    if (rank == 1) {
      EXPECT_EQ(sotto_steps_fail(own, "the loop ended"), SOTTO_OK);
    }
    sotto_steps_begin(own, 0.1);
    EXPECT_NE(sotto_steps_end(own), SOTTO_OK);
    EXPECT_NE(std::string(sotto_last_error(0)).find("the loop ended"), std::string::npos) << sotto_last_error(0);
    EXPECT_NE(sotto_steps_failed(own), 0);
    sotto_steps_free(own);
  });
}

TEST(CapiSteps, GossipShowsAndTakesTheMean) {
  test::run_groups(3, [](sotto_group* group, int rank) {
    Model model;
    const sotto_steps_options options{.bytes = sizeof(options), .topology = "ring", .seed = 1};
    sotto_steps* own = steps(group, "push_sum", model, &options);
    for (int step = 0; step < 2; ++step) take(own, model, static_cast<float>(rank));
    const auto mine = model.values;
    ASSERT_EQ(sotto_steps_show_mean(own), SOTTO_OK) << sotto_last_error(0);
    EXPECT_NEAR(model.values[0], 3, 1e-5) << "1 and the mean of 0, 2, 4";
    EXPECT_EQ(sotto_steps_begin(own, 0.1), SOTTO_CONFIG_ERROR) << "the model is another one";
    ASSERT_EQ(sotto_steps_show_own(own), SOTTO_OK);
    EXPECT_EQ(model.values, mine);
    ASSERT_EQ(sotto_steps_take_average(own), SOTTO_OK) << sotto_last_error(0);
    EXPECT_NEAR(model.values[21], 3, 1e-5);
    std::string methods;
    EXPECT_EQ(sotto_steps_methods(own, {[](void* to, const void* data, std::size_t size) {
                                          static_cast<std::string*>(to)->assign(static_cast<const char*>(data), size);
                                        },
                                        &methods}),
              SOTTO_OK);
    EXPECT_NE(methods.find("push_sum"), methods.npos) << methods;
    sotto_steps_free(own);
  });
}

TEST(CapiSteps, ContinueToTheSameBits) {
  test::run_groups(2, [](sotto_group* group, int rank) {
    const sotto_steps_options options{.bytes = sizeof(options), .codec = "ef | topk(0.3)", .seed = 1};
    Model model;
    sotto_steps* first = steps(group, "diloco(h=2)", model, &options);
    for (int step = 0; step < 3; ++step) take(first, model, static_cast<float>(rank + step));
    Kept kept;
    std::uint64_t at = 0;
    ASSERT_EQ(sotto_steps_state(first, &at, kept.visitor()), SOTTO_OK) << sotto_last_error(0);
    EXPECT_EQ(at, 3);
    take(first, model, 0.25F);
    sotto_steps_free(first);

    Model again;
    sotto_steps* second = steps(group, "diloco(h=2)", again, &options);
    const auto values = kept.list();
    ASSERT_EQ(sotto_steps_load(second, at, values.data(), values.size()), SOTTO_OK) << sotto_last_error(0);
    take(second, again, 0.25F);
    EXPECT_EQ(again.values, model.values);
    EXPECT_EQ(sotto_steps_load(second, at, values.data(), 0), SOTTO_FILE_ERROR) << sotto_last_error(0);
    sotto_steps_free(second);
  });
}

TEST(CapiSteps, RefuseWhatTheyCannotUse) {
  test::run_groups(1, [](sotto_group* group, int /*rank*/) {
    Model model;
    sotto_steps* made = nullptr;
    const auto create = [&](const char* algorithm, sotto_parameter one, const sotto_steps_options& options) {
      return sotto_steps_create(group, algorithm, &one, 1, model.calls(), &options, &made);
    };
    const sotto_steps_options good{.bytes = sizeof(good), .seed = 1};
    EXPECT_EQ(create("nothing", weights, good), SOTTO_CONFIG_ERROR);
    EXPECT_EQ(create(nullptr, weights, good), SOTTO_CONFIG_ERROR);
    EXPECT_EQ(create("local(h=2)", {"w", SOTTO_F16, 1, weight_form.data()}, good), SOTTO_CONFIG_ERROR);
    EXPECT_EQ(create("local(h=2)", weights, {.bytes = sizeof(good), .codec = "nothing"}), SOTTO_CONFIG_ERROR);
    EXPECT_EQ(create("local(h=2)", weights, {.bytes = sizeof(good), .peers_per_step = "0:1"}), SOTTO_CONFIG_ERROR);
    EXPECT_EQ(sotto_steps_create(group, "local(h=2)", &weights, 1, {}, &good, &made), SOTTO_CONFIG_ERROR);
    EXPECT_EQ(sotto_steps_create(group, "local(h=2)", nullptr, 0, model.calls(), &good, &made), SOTTO_CONFIG_ERROR);
    EXPECT_EQ(sotto_steps_end(nullptr), SOTTO_CONFIG_ERROR);
    sotto_steps_free(nullptr);
  });
}

TEST(CapiSteps, AnEndWithoutABeginIsAnError) {
  test::run_groups(1, [](sotto_group* group, int /*rank*/) {
    Model model;
    sotto_steps* own = steps(group, "local(h=2)", model);
    EXPECT_EQ(sotto_steps_end(own), SOTTO_CONFIG_ERROR);
    EXPECT_EQ(model.writes, 0);
    sotto_steps_free(own);
  });
}

}  // namespace
}  // namespace sotto
