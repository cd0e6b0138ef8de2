#include "sotto/aggregate/scheduled_aggregator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "tests/aggregate/group.h"
#include "tests/support/phases.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::average_all, test::message_of, test::read_phases, test::sample_gradient, test::sample_layout;

ScheduledAggregator make(std::vector<Phase> phases, const std::vector<BucketPlan>& buckets, int rank = 0,
                         int ranks = 1) {
  return {std::move(phases), buckets, rank, ranks, nullptr};
}

// With every memory of the table, and with a second memory at the owner: the next phase sends what the last one held
// back.
TEST(ScheduledAggregator, WhatIsHeldGoesOverIntoTheNextPhase) {
  const Layout layout = sample_layout();
  const auto buckets = plan_buckets(layout, 1200);
  const int ranks = 3;
  for (const char* memory : {"ef", "memsgd", "demo(1)", "momentum(m=0)"}) {
    for (const char* aggregator : {"gather", "scatter_reduce"}) {
      const auto phases = read_phases({{0, std::string(memory) + " | topk(0.2)", aggregator},
                                       {2, std::string(memory) + " | topk(0.05)", aggregator},
                                       {3, std::string(memory) + " | f32", "all_reduce"}});
      run_threads(ranks, 20s, [&](Communicator& communicator) {
        auto scheduled = make(phases, buckets, communicator.rank(), ranks);
        std::vector<double> balance(layout.size());  // gradients minus means; times the rate for memsgd
        for (int step = 0; step < 4; ++step) {
          const double unit = std::string_view(memory) == "memsgd" ? test::sample_rate(step) : 1;
          scheduled.enter(static_cast<std::uint64_t>(step));
          EXPECT_EQ(scheduled.phase().first_step, step < 2 ? 0U : static_cast<std::uint64_t>(step));
          for (int rank = 0; rank < ranks; ++rank) {
            const auto gradient = sample_gradient(layout, rank, step);
            for (std::size_t i = 0; i < balance.size(); ++i) {
              balance[i] += unit * gradient[i] / static_cast<double>(ranks);
            }
          }
          auto values = sample_gradient(layout, communicator.rank(), step);
          average_all(scheduled.current(), buckets, values, step, communicator);
          for (std::size_t i = 0; i < balance.size(); ++i) balance[i] -= unit * values[i];
        }
        for (std::size_t i = 0; i < balance.size(); ++i) {
          ASSERT_NEAR(balance[i], 0, 1e-4) << memory << ", " << aggregator << " " << i;
        }
      });
    }
  }
}

// What each of `ranks` ranks remembers after the steps `first` to `end`, of which the first begins with the states of
// other ranks. Adds to `balance` what came, and subtracts what went; of memsgd, both times the rate.
std::vector<test::State> states_after(int ranks, const std::vector<Phase>& phases, int first, int end,
                                      const std::vector<test::State>& before, std::vector<double>& balance) {
  const auto buckets = plan_buckets(sample_layout(), 1200);
  const bool in_rates = phases.front().recipe.memory.entry->name == "memsgd";
  std::vector<test::State> states(static_cast<std::size_t>(ranks));
  run_threads(ranks, 20s, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    ScheduledAggregator scheduled(phases, buckets, rank, ranks, nullptr, static_cast<std::uint64_t>(first));
    std::vector<test::Restorer> restorers(before.begin(), before.end());
    std::vector<FormerRank> each;
    for (test::Restorer& restorer : restorers) {
      each.push_back({static_cast<int>(each.size()), static_cast<int>(before.size()), &restorer});
    }
    if (!before.empty()) scheduled.take_over(each);
    for (int step = first; step < end; ++step) {
      scheduled.enter(static_cast<std::uint64_t>(step));
      auto values = sample_gradient(sample_layout(), rank, step);
      average_all(scheduled.current(), buckets, values, step, communicator);
      if (rank > 0) continue;
      const double unit = in_rates ? test::sample_rate(step) : 1;
      for (int other = 0; other < ranks; ++other) {
        const auto gradient = sample_gradient(sample_layout(), other, step);
        for (std::size_t i = 0; i < balance.size(); ++i) balance[i] += unit * gradient[i] / static_cast<double>(ranks);
      }
      for (std::size_t i = 0; i < balance.size(); ++i) balance[i] -= unit * values[i];
    }
    scheduled.enter(static_cast<std::uint64_t>(end));  // as before a checkpoint
    states[static_cast<std::size_t>(rank)] = test::state_of(scheduled.current());
  });
  return states;
}

// Of every memory of the table, with owners of chunks and with groups.
TEST(ScheduledAggregator, OtherRanksOweAsMuch) {
  for (const std::string memory : {"ef", "memsgd", "demo(1)", "momentum(m=0)"}) {
    for (const std::string aggregator : {"gather", "scatter_reduce", "sparse", "auto", "hierarchical(group=2)"}) {
      const bool groups = aggregator.starts_with("hierarchical");
      const auto phases = read_phases(
          {{0, memory + " | topk(0.2)", aggregator}, {6, memory + " | f32", groups ? aggregator : "all_reduce"}});
      std::vector<double> balance(sample_layout().size());
      std::vector<test::State> states;
      int step = 0;
      for (const int ranks : {4, 2, 4}) {
        states = states_after(ranks, phases, step, step + 2, states, balance);
        step += 2;
        EXPECT_GT(std::ranges::max(balance), 0.01) << "nothing was held back";
      }
      states_after(6, phases, step, step + 1, states, balance);
      for (std::size_t i = 0; i < balance.size(); ++i) {
        ASSERT_NEAR(balance[i], 0, 1e-4) << memory << ", " << aggregator << " " << i;
      }
    }
  }
}

// What a rank holds back, as a memory: also what it holds back as the owner of a chunk.
std::vector<float> held_back(const std::vector<Phase>& phases, const FormerRank& self) {
  ScheduledAggregator scheduled(phases, plan_buckets(sample_layout(), 1200), 0, 1, nullptr);
  scheduled.take_over({&self, 1});
  const auto kept = test::state_of(scheduled.current()).floats.at("memory.ef");  // in the order of buckets
  std::vector<float> held(kept.size());
  auto from = kept.begin();
  for (const BucketPlan& plan : plan_buckets(sample_layout(), 1200)) {
    const auto size = static_cast<std::ptrdiff_t>(plan.range.size());
    std::copy(from, from + size, held.begin() + static_cast<std::ptrdiff_t>(plan.range.begin));
    from += size;
  }
  return held;
}

// When a rank of four is lost, the sum of all gradients is what was sent, and what the lost rank held back.
TEST(ScheduledAggregator, RanksThatAreLeftLoseNothingOfTheirOwn) {
  for (const std::string aggregator : {"gather", "scatter_reduce", "sparse", "auto"}) {
    const auto phases = read_phases({{0, "ef | topk(0.2)", aggregator}, {4, "ef | f32", "all_reduce"}});
    const auto buckets = plan_buckets(sample_layout(), 1200);
    std::vector<double> balance(sample_layout().size());
    const auto count = [&](int step, std::span<const int> ids, std::span<const float> mean) {
      for (const int id : ids) {
        const auto gradient = sample_gradient(sample_layout(), id, step);
        for (std::size_t i = 0; i < balance.size(); ++i) balance[i] += gradient[i];
      }
      for (std::size_t i = 0; i < balance.size(); ++i) balance[i] -= static_cast<double>(ids.size()) * mean[i];
    };
    constexpr std::array<int, 4> all{0, 1, 2, 3};
    constexpr std::array<int, 3> left{0, 1, 3};
    std::vector<test::State> states(all.size());
    run_threads(4, 20s, [&](Communicator& communicator) {
      ScheduledAggregator scheduled = make(phases, buckets, communicator.rank(), 4);
      for (int step = 0; step < 2; ++step) {
        auto values = sample_gradient(sample_layout(), communicator.rank(), step);
        average_all(scheduled.current(), buckets, values, step, communicator);
        if (communicator.rank() == 0) count(step, all, values);
      }
      states[static_cast<std::size_t>(communicator.rank())] = test::state_of(scheduled.current());
    });
    test::Restorer lost(states[2]);
    const auto of_the_lost = held_back(phases, {2, 4, &lost});
    EXPECT_GT(std::ranges::max(of_the_lost), 0.01F) << "nothing was held back";
    run_threads(3, 20s, [&](Communicator& communicator) {
      const int id = left.at(static_cast<std::size_t>(communicator.rank()));
      ScheduledAggregator scheduled(phases, buckets, communicator.rank(), 3, nullptr, 2);
      test::Restorer own(states[static_cast<std::size_t>(id)]);
      const FormerRank self{id, 4, &own};
      scheduled.take_over({&self, 1});
      for (int step = 2; step < 5; ++step) {
        scheduled.enter(static_cast<std::uint64_t>(step));
        auto values = sample_gradient(sample_layout(), id, step);
        average_all(scheduled.current(), buckets, values, step, communicator);
        if (communicator.rank() == 0) count(step, left, values);
      }
    });
    for (std::size_t i = 0; i < balance.size(); ++i) ASSERT_NEAR(balance[i], of_the_lost[i], 1e-4) << aggregator << i;
  }
}

TEST(ScheduledAggregator, OtherRanksTakeTheMeanOfEachVectorOfAMemory) {
  const auto phases = read_phases({{0, "momentum(m=0.9) | topk(0.2)", "gather"}});
  std::vector<double> balance(sample_layout().size());
  const auto before = states_after(4, phases, 0, 3, {}, balance);
  const auto after = states_after(2, phases, 3, 3, before, balance);
  for (const char* name : {"memory.momentum.u", "memory.momentum.v"}) {
    for (std::size_t i = 0; i < before[0].floats.at(name).size(); ++i) {
      float sum = 0;
      for (const test::State& state : before) sum += state.floats.at(name)[i];
      for (const test::State& state : after) ASSERT_NEAR(state.floats.at(name)[i], sum / 4, 1e-6F) << name;
    }
  }
}

TEST(ScheduledAggregator, RanksThatDoNotFallIntoGroupsAreNotTakenOver) {
  const auto phases = read_phases({{0, "ef | topk(0.2)", "hierarchical(group=2)"}});
  const auto buckets = plan_buckets(sample_layout(), 1200);
  ScheduledAggregator scheduled = make(phases, buckets, 0, 2);
  const std::vector<FormerRank> three(3, {0, 3, nullptr});
  EXPECT_NE(message_of([&] { scheduled.take_over(three); }).find("3 ranks do not fall into groups of 2"),
            std::string::npos);
}

// Momentum and error of fetch stand in the sketch: with another ratio they continue as if the ratio had always been
// that one.
TEST(ScheduledAggregator, TheSketchesOfFetchGoOver) {
  const auto buckets = plan_buckets(sample_layout(), 1200);
  const char* const sketch = " | count_sketch(rows=3, columns=50%)";
  const auto phases = read_phases({{0, std::string("fetch(0.3)") + sketch}, {2, std::string("fetch(0.05)") + sketch}});
  run_threads(2, 20s, [&](Communicator& communicator) {
    auto scheduled = make(phases, buckets, communicator.rank(), 2);
    for (int step = 0; step < 2; ++step) {
      auto values = sample_gradient(sample_layout(), communicator.rank(), step);
      average_all(scheduled.current(), buckets, values, step, communicator);
    }
    const auto before = test::state_of(scheduled.current());
    scheduled.enter(2);
    EXPECT_EQ(test::state_of(scheduled.current()), before);
    EXPECT_NE(before, test::state_of(*make_aggregator(phases[1].recipe, buckets, communicator)));
  });
}

TEST(ScheduledAggregator, BeginsInThePhaseOfItsStep) {
  const auto buckets = plan_buckets(sample_layout(), 1200);
  const auto phases = read_phases({{0, "none"}, {3, "ef | topk(0.1)"}, {5, "ef | topk(0.2)"}});
  for (const std::uint64_t step : {0, 2, 3, 4, 5, 9}) {
    const ScheduledAggregator scheduled(phases, buckets, 0, 1, nullptr, step);
    EXPECT_EQ(scheduled.phase().first_step, step < 3 ? 0U : step < 5 ? 3U : 5U) << step;
  }
}

TEST(ScheduledAggregator, StartsAfterStepsThatSendEverything) {
  const auto text = [](std::uint64_t steps, const std::vector<test::PhaseText>& phases) {
    std::string all;
    for (const Phase& phase : start_after(steps, read_phases(phases))) {
      const AggregatorSpec& aggregator = phase.recipe.by_itself() ? AggregatorSpec{} : phase.recipe.aggregator;
      all += std::to_string(phase.first_step) + " " + phase.recipe.source_text + " " + text_of(aggregator) + "; ";
    }
    return all;
  };
  EXPECT_EQ(text(0, {{0, "qsgd", "gather"}}), "0 qsgd gather; ");
  EXPECT_EQ(text(9, {{0, "qsgd", "gather"}}), "0 none auto; 9 qsgd gather; ");
  EXPECT_EQ(text(9, {{0, "power(2)"}}), "0 ef | f32 auto; 9 power(2) auto; ");
  EXPECT_EQ(text(9, {{0, "momentum(0.5) | topk(0.1)"}}),
            "0 momentum(m=0.5, nesterov=false, masking=true, clip=0, mean=true) | f32 auto; "
            "9 momentum(0.5) | topk(0.1) auto; ");
  EXPECT_EQ(text(9, {{0, "fetch | count_sketch"}}), "0 none auto; 9 fetch | count_sketch auto; ");
  EXPECT_EQ(text(9, {{0, "ef | topk(0.5)"}, {4, "ef | topk(0.3)"}, {12, "ef | topk(0.1)"}}),
            "0 ef | f32 auto; 9 ef | topk(0.3) auto; 12 ef | topk(0.1) auto; ");
  EXPECT_EQ(text(12, {{0, "ef | topk(0.5)"}, {12, "ef | topk(0.1)"}}), "0 ef | f32 auto; 12 ef | topk(0.1) auto; ");
}

// As in the authors' code: in dense steps all ranks make the momentum of the mean, and each continues with it.
TEST(ScheduledAggregator, MomentumGoesOnFromThatOfTheMeanOfDenseSteps) {
  const Layout layout = sample_layout();
  const auto buckets = plan_buckets(layout, 1200);
  constexpr int ranks = 3, dense = 3;
  for (const bool nesterov : {false, true}) {
    const std::string method =
        nesterov ? "momentum(nesterov=true) | topk(0.1, dense=0)" : "momentum | topk(0.1, dense=0)";
    const auto phases = start_after(dense, read_phases({{0, method, "gather"}}));
    std::array<std::vector<float>, ranks> momenta;
    run_threads(ranks, 20s, [&](Communicator& communicator) {
      const int rank = communicator.rank();
      auto scheduled = make(phases, buckets, rank, ranks);
      std::vector<double> u(layout.size());
      for (int step = 0; step < dense; ++step) {
        scheduled.enter(static_cast<std::uint64_t>(step));
        auto values = sample_gradient(layout, rank, step);
        average_all(scheduled.current(), buckets, values, step, communicator);
        std::vector<double> mean(layout.size());
        for (int r = 0; r < ranks; ++r) {
          const auto gradient = sample_gradient(layout, r, step);
          for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<double>(gradient[i]) / ranks;
        }
        for (std::size_t i = 0; i < mean.size(); ++i) {
          u[i] = nesterov ? 0.9 * (u[i] + mean[i]) : 0.9 * u[i] + mean[i];
          ASSERT_NEAR(values[i], nesterov ? u[i] + mean[i] : u[i], 1e-4) << method << " " << step << " " << i;
        }
      }
      scheduled.enter(dense);
      momenta.at(static_cast<std::size_t>(rank)) = test::state_of(scheduled.current()).floats.at("memory.momentum.u");
      std::size_t at = 0;  // the memory has the buckets' values one after the other
      for (const BucketPlan& bucket : buckets) {
        for (std::size_t i = bucket.range.begin; i < bucket.range.end; ++i, ++at) {
          ASSERT_NEAR(momenta.at(static_cast<std::size_t>(rank)).at(at), u[i], 1e-4) << method << " " << i;
        }
      }
    });
    for (const auto& momentum : momenta) EXPECT_EQ(momentum, momenta[0]) << method;
  }
}

TEST(ScheduledAggregator, MomentumOfTheMeanIsForDenseStepsAtTheBeginning) {
  const auto buckets = plan_buckets(sample_layout(), 1200);
  const auto refusal = [&](const std::vector<test::PhaseText>& phases) {
    return message_of([&] { check_phases(read_phases(phases), buckets); });
  };
  EXPECT_EQ(refusal({{0, "momentum(mean=true) | f32"}, {4, "momentum | topk(0.1)"}}), "");
  EXPECT_NE(refusal({{0, "momentum | topk(0.1)"}, {4, "momentum(mean=true) | f32"}}).find("write `momentum | f32`"),
            std::string::npos);
  for (const char* method :
       {"momentum(mean=true) | topk(0.1)", "momentum(mean=true) | qsgd", "momentum(mean=true) | power(1)"}) {
    EXPECT_NE(refusal({{0, method}}).find("f32, f16 or bf16 must follow it"), std::string::npos) << method;
  }
  EXPECT_NE(refusal({{0, "momentum(mean=true) | f32", "gather"}}), "");
}

TEST(ScheduledAggregator, AStateIsThatOfThePhaseOfTheNextStep) {
  const auto buckets = plan_buckets(sample_layout(), 1200);
  const auto phases = read_phases({{0, "momentum | topk(0.3) | qsgd(bits=4)"},
                                   {2, "momentum | svd(rank=2) | atomo(s=1)"},
                                   {4, "momentum | topk(0.02)"}});
  for (const int at : {1, 2, 3, 4, 5}) {
    std::atomic<bool> same = true;
    run_threads(2, 20s, [&](Communicator& communicator) {
      auto whole = make(phases, buckets, communicator.rank(), 2);
      auto resumed = make(phases, buckets, communicator.rank(), 2);
      for (int step = 0; step < 7; ++step) {
        whole.enter(static_cast<std::uint64_t>(step));
        resumed.enter(static_cast<std::uint64_t>(step));
        if (step == at) test::restore(resumed.current(), test::state_of(whole.current()));
        auto values = sample_gradient(sample_layout(), communicator.rank(), step);
        auto again = values;
        average_all(whole.current(), buckets, values, step, communicator);
        if (step < at) continue;
        average_all(resumed.current(), buckets, again, step, communicator);
        if (values != again) same = false;
      }
      if (test::state_of(whole.current()) != test::state_of(resumed.current())) same = false;
    });
    EXPECT_TRUE(same) << at;
  }
}

TEST(ScheduledAggregator, RefusesAPhaseThatLosesWhatAMemoryHolds) {
  const auto buckets = plan_buckets(sample_layout(), 1U << 20);
  const auto refusal = [&](const char* before, const char* after) {
    return message_of([&] { make(read_phases({{0, before}, {5, after}}), buckets); });
  };
  EXPECT_NE(refusal("ef | topk(0.1)", "none").find("`none` from step 5 on would lose"), std::string::npos);
  EXPECT_NE(refusal("ef | topk(0.1)", "none").find("write `ef | f32`"), std::string::npos);
  EXPECT_NE(refusal("momentum(0.8) | topk(0.1)", "f16").find("write `momentum(0.8) | f16`"), std::string::npos);
  EXPECT_NE(refusal("ef | topk(0.1)", "momentum | topk(0.1)").find("write `ef` in place of `momentum`"),
            std::string::npos);
  EXPECT_NE(refusal("none", "topkk(0.1)").find("topk"), std::string::npos);
  EXPECT_NE(refusal("none", "ef | fetch").find("no memory may stand before it"), std::string::npos);
  EXPECT_NE(refusal("ef | topk(0.1)", "fetch").find("write `ef | f32`"), std::string::npos);
  const auto lost =
      refusal("fetch(0.1) | count_sketch(rows=5, columns=18%)", "fetch(0.1) | count_sketch(rows=3, columns=30%)");
  EXPECT_NE(lost.find("write the same `fetch` in front of the same `count_sketch(rows=5, columns=18%"),
            std::string::npos)
      << lost;
  EXPECT_NE(refusal("fetch", "none").find("would lose what `fetch` holds back"), std::string::npos);
  EXPECT_EQ(refusal("none", "fetch"), "");
  EXPECT_EQ(refusal("none", "momentum | topk(0.1)"), "");
  EXPECT_EQ(refusal("momentum(0.9) | topk(0.1)", "momentum(0.5) | topk(0.01)"), "");
}

TEST(ScheduledAggregator, IsNamedByItsPhases) {
  EXPECT_EQ(text_of(read_phases("ef | topk(0.1)")), read_recipe("ef | topk(0.1)").text());
  EXPECT_EQ(text_of(read_phases({{0, "none"}, {7, "f16"}})), "from step 0: f32; from step 7: f16");
}

}  // namespace
}  // namespace sotto
