#include "sotto/aggregate/phased.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "tests/aggregate/group.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::average_all, test::message_of, test::sample_gradient, test::sample_layout;

Phased make(std::vector<Phase> phases, const std::vector<BucketPlan>& buckets, int rank = 0, int ranks = 1) {
  return {"codec", std::move(phases), buckets, rank, ranks, nullptr};
}

// Of every memory of the table, and through a second memory at the owner: what is held is sent in the phase after.
TEST(Phased, WhatIsHeldGoesOverIntoTheNextPhase) {
  const Layout layout = sample_layout();
  const auto buckets = plan_buckets(layout, 1200);
  const int ranks = 3;
  for (const char* memory : {"ef", "memsgd", "demo(1)", "momentum(m=0)"}) {
    for (const char* aggregator : {"gather", "scatter_reduce"}) {
      const std::vector<Phase> phases{{0, std::string(memory) + " | topk(0.2)", aggregator},
                                      {2, std::string(memory) + " | topk(0.05)", aggregator},
                                      {3, std::string(memory) + " | f32", "all_reduce"}};
      run_threads(ranks, 20s, [&](Communicator& communicator, Mailbox&) {
        auto phased = make(phases, buckets, communicator.rank(), ranks);
        std::vector<double> balance(layout.size());  // came minus went
        for (int step = 0; step < 4; ++step) {
          // One rate, so that sums of gradients are what memsgd keeps, too.
          phased.enter(static_cast<std::uint64_t>(step));
          EXPECT_EQ(phased.phase().first_step, step < 2 ? 0U : static_cast<std::uint64_t>(step));
          for (int rank = 0; rank < ranks; ++rank) {
            const auto gradient = sample_gradient(layout, rank, 2 * step);
            for (std::size_t i = 0; i < balance.size(); ++i) balance[i] += gradient[i] / static_cast<double>(ranks);
          }
          auto values = sample_gradient(layout, communicator.rank(), 2 * step);
          average_all(phased, buckets, values, 2 * step, communicator);
          for (std::size_t i = 0; i < balance.size(); ++i) balance[i] -= values[i];
        }
        for (std::size_t i = 0; i < balance.size(); ++i) {
          ASSERT_NEAR(balance[i], 0, 1e-4) << memory << ", " << aggregator << " " << i;
        }
      });
    }
  }
}

TEST(Phased, AStateIsThatOfThePhaseOfTheNextStep) {
  const auto buckets = plan_buckets(sample_layout(), 1200);
  const std::vector<Phase> phases{{0, "momentum | topk(0.3) | qsgd(bits=4)"},
                                  {2, "momentum | svd(rank=2) | atomo(s=1)"},
                                  {4, "momentum | topk(0.02)"}};
  for (const int at : {1, 2, 3, 4, 5}) {
    std::atomic<bool> same = true;
    run_threads(2, 20s, [&](Communicator& communicator, Mailbox&) {
      auto whole = make(phases, buckets, communicator.rank(), 2);
      auto resumed = make(phases, buckets, communicator.rank(), 2);
      for (int step = 0; step < 7; ++step) {
        whole.enter(static_cast<std::uint64_t>(step));
        resumed.enter(static_cast<std::uint64_t>(step));
        if (step == at) test::restore(resumed, test::state_of(whole));
        auto values = sample_gradient(sample_layout(), communicator.rank(), step);
        auto again = values;
        average_all(whole, buckets, values, step, communicator);
        if (step < at) continue;
        average_all(resumed, buckets, again, step, communicator);
        if (values != again) same = false;
      }
      if (test::state_of(whole) != test::state_of(resumed)) same = false;
    });
    EXPECT_TRUE(same) << at;
  }
}

TEST(Phased, RefusesAPhaseThatLosesWhatAMemoryHolds) {
  const auto buckets = plan_buckets(sample_layout(), 1U << 20);
  const auto refusal = [&](const char* before, const char* after) {
    return message_of([&] { make({{0, before}, {5, after}}, buckets); });
  };
  EXPECT_NE(refusal("ef | topk(0.1)", "none").find("`none` from step 5 on would lose"), std::string::npos);
  EXPECT_NE(refusal("ef | topk(0.1)", "none").find("write `ef | f32`"), std::string::npos);
  EXPECT_NE(refusal("momentum(0.8) | topk(0.1)", "f16").find("write `momentum(0.8) | f16`"), std::string::npos);
  EXPECT_NE(refusal("ef | topk(0.1)", "momentum | topk(0.1)").find("write `ef` in place of `momentum`"),
            std::string::npos);
  EXPECT_NE(refusal("none", "topkk(0.1)").find("topk"), std::string::npos);
  EXPECT_EQ(refusal("none", "momentum | topk(0.1)"), "");
  EXPECT_EQ(refusal("momentum(0.9) | topk(0.1)", "momentum(0.5) | topk(0.01)"), "");
}

TEST(Phased, IsNamedByItsPhases) {
  EXPECT_EQ(canonical_phases("test", {{0, "ef | topk(0.1)"}}), canonical_method("test", "ef | topk(0.1)"));
  EXPECT_EQ(canonical_phases("test", {{0, "none"}, {7, "f16"}}), "from step 0: f32; from step 7: f16");
}

}  // namespace
}  // namespace sotto
