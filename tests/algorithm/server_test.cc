// How a server handles messages, in an order that the test chooses, without threads.
#include "sotto/algorithm/server/server.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sotto/core/error.h"
#include "sotto/core/random.h"
#include "sotto/optim/optimiser.h"
#include "tests/algorithm/served_group.h"
#include "tests/support/message_of.h"
#include "tests/support/store.h"

namespace sotto {
namespace {

using Kind = ServerNote::Kind;
using Mode = ServerPlan::Mode;
using test::Group;
using test::message_of;
using test::plan;
using test::some_buckets;

TEST(Server, AnswersAllAtOnceInStep) {
  Group group(plan(Mode::sync, 3));
  for (const int rank : {2, 0}) {
    group.gradient(rank, 3);
    EXPECT_EQ(group.steps(rank), 0U);
  }
  group.gradient(1, 6, 0.5);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(group.steps(rank), 1U);
    EXPECT_EQ(group.version(rank), 1U);
    EXPECT_NEAR(group.value(rank), -4, 1e-6) << "the rate is that of the first of those at the same step";
  }
}

TEST(Server, DropsWhatComesLate) {
  Group group(plan(Mode::sync, 3, 2));
  group.gradient(0, 2);
  group.gradient(1, 4);
  EXPECT_EQ(group.value(1), -3);
  group.gradient(2, 100);  // a gradient of the old model: answered at once with the new one
  EXPECT_EQ(group.steps(2), 1U);
  EXPECT_EQ(group.value(2), -3);
  group.gradient(2, 2);  // in time again
  EXPECT_EQ(group.steps(2), 1U);
  group.gradient(0, 0);
  EXPECT_EQ(group.value(2), -4);
  EXPECT_EQ(group.steps(1), 1U) << "its gradient is still on its way, and nobody waits for it";
}

// The worker that is missing may wait for another server, which waits for this worker.
TEST(Server, WaitsForOneFewerWithEachThatRests) {
  Group group(plan(Mode::sync, 3, 2));
  for (int rank = 0; rank < 3; ++rank) group.gradient(rank, 2);
  group.gradient(1, 2);
  EXPECT_EQ(group.steps(1), 1U);
  group.rest(0);
  EXPECT_EQ(group.steps(1), 2U);
  EXPECT_EQ(group.value(1), -3) << "of one gradient, which counts half";
  group.gradient(2, 2);  // late
  group.gradient(2, 2);
  EXPECT_EQ(group.steps(2), 3U);
  EXPECT_EQ(group.value(2), -4);
}

TEST(Server, RemembersLossesBehindARest) {
  Group group(plan(Mode::sync, 2));
  group.gradient(0, 1, 1, ServerNote::never, 2);
  group.gradient(1, 1, 1, ServerNote::never, 4);
  group.rest(0);
  EXPECT_EQ(group.server().loss(), 3);
}

TEST(Server, CarriesWhatComesLateToTheNextUpdate) {
  ServerPlan carry = plan(Mode::sync, 3, 2);
  carry.carry = true;
  Group group(carry);
  group.gradient(0, 2);
  group.gradient(1, 4);
  group.gradient(2, 8);
  EXPECT_EQ(group.value(2), -3) << "not yet";
  group.gradient(0, 0);
  group.gradient(1, 0);
  EXPECT_EQ(group.value(0), -3 - 4);
}

// Each gradient counts a k-th, in whatever order they come. Sums of small whole numbers are exact.
TEST(Server, LosesNothingOfWhatItCarries) {
  for (const std::size_t k : {1U, 2U, 4U}) {
    ServerPlan carry = plan(Mode::sync, 5, k);
    carry.carry = true;
    Group group(carry);
    Philox random(7, Purpose::test, k);
    std::vector<std::uint64_t> sent(5);
    double sum = 0;
    for (int i = 0; i < 400; ++i) {
      const auto rank = random.below(5);
      if (sent[rank] > group.steps(static_cast<int>(rank))) continue;  // this worker waits for an answer
      const auto value = static_cast<float>(random.below(64)) - 20;
      group.gradient(static_cast<int>(rank), value);
      ++sent[rank];
      sum += value;
    }
    for (int rank = 0; rank < 5; ++rank) {  // workers that wait are answered once fewer are at work
      if (group.steps(rank) == sent[static_cast<std::size_t>(rank)]) group.rest(rank);
    }
    for (int rank = 0; rank < 5; ++rank) {
      EXPECT_EQ(group.steps(rank), sent[static_cast<std::size_t>(rank)]);
    }
    EXPECT_EQ(-group.servers_value() + group.carried()[0], sum / static_cast<double>(k)) << k;
  }
}

TEST(Server, TakesEachGradientAsItComesWhereNobodyWaits) {
  Group group(plan(Mode::async, 2));
  for (int i = 0; i < 3; ++i) group.gradient(0, 2);
  EXPECT_EQ(group.steps(0), 3U);
  EXPECT_EQ(group.value(0), -3) << "each counts half, as two workers send";
  group.gradient(1, 4);
  EXPECT_EQ(group.value(1), -5);
  EXPECT_EQ(group.version(1), 4U);
}

// How far the model moves in `rounds` rounds after the first 120, where every worker sends `gradient` in every round.
double movement(const ServerPlan& plan, const std::string& optimiser, float gradient, int rounds) {
  constexpr double lr = 1e-3;
  Group group(plan, "f32", optimiser, 1);
  std::vector<std::unique_ptr<Optimiser>> workers;  // they make the momentum of some where nobody waits
  for (int rank = 0; rank < plan.ranks; ++rank) {
    auto worker = make_optimiser(test::optimiser(optimiser), Layout({{"one", 0, {1}}}, 1));
    worker->take_shares(plan.rate_share());
    if (worker->offer_makes_buffers()) workers.push_back(std::move(worker));
  }
  std::uint64_t made = 0;
  const auto send = [&](int times) {
    for (int round = 0; round < times; ++round, ++made) {
      for (int rank = 0; rank < plan.ranks; ++rank) {
        std::vector<float> one{gradient};
        if (!workers.empty()) {
          workers[static_cast<std::size_t>(rank)]->begin_step(made);
          workers[static_cast<std::size_t>(rank)]->offer(one, 0);
        }
        group.gradient(rank, one[0], lr);
      }
    }
  };
  send(120);
  const double before = static_cast<double>(group.servers_value());
  send(rounds);
  return before - static_cast<double>(group.servers_value());
}

// With any optimiser, a round of all workers moves the model as far as a step of `sync` with the same rate does, by
// gradients and by the pull towards zero.
TEST(Server, ARateMeansTheSameWhereNobodyWaits) {
  std::vector<std::string> names{"lars(trust=0.05, adapt-vectors=true, ", "lamb(adapt-vectors=true, "};
  for (const OptimiserEntry& entry : optimiser_table()) names.push_back(std::string(entry.name) + "(");
  for (const std::string& name : names) {
    for (const std::string& optimiser : {name + "weight-decay=0)", name + "weight-decay=0.05)"}) {
      if (optimiser == "adam(weight-decay=0.05)") continue;  // refused
      for (const float gradient : {0.0F, 0.25F}) {
        const double wanted = movement(plan(Mode::sync, 4), optimiser, gradient, 20);
        for (const Mode mode : {Mode::async, Mode::stale}) {
          EXPECT_NEAR(movement(plan(mode, 4), optimiser, gradient, 20), wanted, 0.01 * std::abs(wanted) + 1e-6)
              << optimiser << ", " << gradient;
        }
      }
    }
  }
}

TEST(Server, HoldsTheBound) {
  for (const std::uint64_t bound : {0U, 1U, 3U}) {
    ServerPlan stale = plan(Mode::stale, 3);
    stale.bound = bound;
    Group group(stale);
    for (std::uint64_t step = 0; step <= bound; ++step) {
      EXPECT_EQ(group.steps(0), step);
      group.gradient(0, 1);
    }
    EXPECT_EQ(group.steps(0), bound) << "one more step would be too far ahead";
    group.gradient(1, 1);
    EXPECT_EQ(group.steps(0), bound) << "the other one is slower";
    group.gradient(2, 1);
    EXPECT_EQ(group.steps(0), bound + 1);
    EXPECT_EQ(group.steps(2), 1U);
    EXPECT_EQ(group.steps(1), 1U);
    EXPECT_NEAR(group.value(0), -(static_cast<float>(bound) + 3) / 3, 1e-5) << "all that came is in it";
  }
}

// With no new gradients, the server sends what coded differences had left out.
TEST(Server, WorkersComeToItsModel) {
  for (const char* down : {"topk(0.25)", "qsgd(bits=4)", "sign(block=32)", "topk(0.5) | qsgd(bits=6)"}) {
    for (const Mode mode : {Mode::sync, Mode::async}) {
      Group group(plan(mode, 2), down);
      for (int step = 0; step < 5; ++step) {
        group.gradient(0, static_cast<float>(1 + step));
        group.gradient(1, -0.3F);
      }
      for (int step = 0; step < 200; ++step) {
        group.gradient(0, 0);
        group.gradient(1, 0);
      }
      std::vector<float> wanted(group.size());
      std::vector<float> found = group.model(1);
      const auto buckets = some_buckets();
      share_out(buckets, 1).front().scatter(group.server().model(), wanted);
      if (mode == Mode::sync) {
        test::Store store;
        group.server().visit_state(store);
        share_out(buckets, 1).front().scatter(store.floats.at("model"), wanted);
      }
      EXPECT_GT(std::abs(wanted[0]), 1);
      for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-5) << down << ", " << i;
      EXPECT_EQ(group.model(0), found) << down;
    }
  }
}

TEST(Server, TellsAllInTimeWhereToStop) {
  Group group(plan(Mode::async, 3));
  for (int i = 0; i < 4; ++i) group.gradient(0, 1);
  group.gradient(1, 1, 1, 0);  // wishes to stop
  EXPECT_EQ(group.stop(1), 4U) << "the step that the fastest takes now";
  group.gradient(0, 1);
  group.gradient(2, 1);
  EXPECT_EQ(group.stop(0), 4U);
  EXPECT_EQ(group.stop(2), 4U);
}

TEST(Server, NamesWhomItWaitsFor) {
  Group group(plan(Mode::sync, 3));
  group.gradient(0, 1);
  group.gradient(2, 1);
  const auto [rank, step, since] = group.server().slowest();
  EXPECT_EQ(rank, 1);
  EXPECT_EQ(step, 0U);
  while (Clock::now() == since) continue;
  std::vector<float> values(some_buckets()[0].range.size());
  group.send(1, 0, values);
  EXPECT_GT(group.server().slowest().since, since) << "a bucket is a sign of life";
}

TEST(Server, WaitsForNobodyAtRest) {
  Group group(plan(Mode::sync, 3));
  group.gradient(0, 1);
  group.gradient(2, 1);
  group.gradient(1, 1);
  for (int rank = 0; rank < 3; ++rank) group.rest(rank);
  EXPECT_EQ(group.server().slowest().rank, -1);
  EXPECT_TRUE(group.server().at_rest());
}

ServerPlan plan_together(Mode mode, int ranks) {
  ServerPlan plan = test::plan(mode, ranks);
  plan.together = true;
  plan.bound = 1;
  return plan;
}

TEST(Server, TellsHowManyStepsAllHaveMade) {
  Group group(plan_together(Mode::async, 3));
  for (int i = 0; i < 5; ++i) group.gradient(0, 1);
  EXPECT_EQ(group.made(0), 5U);
  group.gradient(2, 1);
  EXPECT_EQ(group.made(2), 6U);
  EXPECT_EQ(group.server().common_steps(), 2U) << "on average";
  EXPECT_FALSE(group.server().meets());
  group.rest(0);
  EXPECT_TRUE(group.server().meets());
}

TEST(Server, StopsThoseThatCountTogetherAtOnce) {
  Group group(plan_together(Mode::async, 2));
  for (int i = 0; i < 5; ++i) group.gradient(0, 1);
  group.gradient(1, 1, 1, 0);
  EXPECT_EQ(group.stop(1), 0U);
  group.gradient(0, 1);
  EXPECT_EQ(group.stop(0), 0U);
}

// Otherwise one that is as far ahead as it may be would wait for ever for slower ones that have come to the meeting.
TEST(Server, WaitsForNobodyThatRests) {
  Group group(plan_together(Mode::stale, 3));
  group.gradient(0, 1);
  group.gradient(0, 1);
  EXPECT_EQ(group.steps(0), 1U) << "two steps ahead";
  group.rest(1);
  EXPECT_EQ(group.steps(0), 1U) << "rank 2 is at work";
  group.gradient(2, 1);
  EXPECT_EQ(group.steps(0), 2U);
  group.gradient(0, 1);
  EXPECT_EQ(group.steps(0), 2U);
  group.rest(2);
  EXPECT_EQ(group.steps(0), 3U);
}

TEST(Server, RefusesWhatDoesNotBelongThere) {
  const auto expect = [](const char* part, const std::function<void(Group&)>& act) {
    Group group(plan(Mode::sync, 2, 2));
    const std::string why = message_of([&] { act(group); });
    EXPECT_NE(why.find(part), std::string::npos) << why;
    EXPECT_NE(why.find("message of rank"), std::string::npos) << why;
  };
  std::vector<float> values(32);
  expect("buckets are missing", [](Group& g) { g.note(1, {.kind = Kind::gradient}); });
  expect("another step", [](Group& g) { g.note(1, {.kind = Kind::gradient, .step = 1}); });
  expect("another step", [](Group& g) {
    g.rest(1);
    g.rest(1);
  });
  expect("does not take", [](Group& g) { g.note(1, {.kind = Kind::model}); });
  expect("does not take", [](Group& g) { g.note(1, {.kind = Kind::idle}); });
  expect("generation 3", [](Group& g) { g.note(1, {.kind = Kind::rest, .generation = 3}); });
  expect("came before", [&](Group& g) {
    const auto parts = some_buckets();
    std::vector<float> of(parts[0].range.size());
    g.send(1, 0, of);
    g.send(1, 0, of);
  });
  expect("before the last one was answered", [&](Group& g) {
    g.gradient(1, 1);
    std::vector<float> of(some_buckets()[0].range.size());
    g.send(1, 0, of);
  });
  expect("no worker", [](Group& g) {
    const std::vector<std::byte> nothing(ServerNote::bytes);
    g.take(5, nothing);
  });
  expect("", [](Group& g) { g.take(1, {}); });
  expect("never was", [](Group& g) {
    for (std::uint16_t b = 0; b < some_buckets().size(); ++b) {
      std::vector<float> of(some_buckets()[b].range.size());
      g.send(1, b, of);
    }
    g.note(1, {.kind = Kind::gradient, .version = 7, .rate = 1});
  });
  std::vector<std::byte> note(ServerNote::bytes);
  write_note({.kind = Kind::rest}, note);
  for (std::size_t cut = 0; cut < note.size(); ++cut) {
    expect("", [&](Group& g) { g.take(1, std::span(note).first(cut)); });
  }
  note.push_back(std::byte{0});
  expect("too many", [&](Group& g) { g.take(1, note); });
}

}  // namespace
}  // namespace sotto
