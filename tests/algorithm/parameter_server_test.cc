// Workers and servers on threads: exact answers, bits, bytes, and how a group resumes.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "sotto/aggregate/aggregator.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/algorithm/server/server_note.h"
#include "sotto/algorithm/server/server_plan.h"
#include "sotto/comm/emulated/threads.h"
#include "tests/algorithm/perceptron.h"
#include "tests/algorithm/quadratic.h"
#include "tests/algorithm/served_algorithm.h"
#include "tests/support/phases.h"
#include "tests/support/specs.h"
#include "tests/support/store.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::expect_replicas;
using test::expect_same_bits;
using test::make_served;
using test::message_bytes;
using test::Perceptron;
using test::Quadratic;
using test::with;

class Servers : public testing::TestWithParam<int> {};

// A server makes the same mean as each rank does in gather: the sum in rank order.
TEST_P(Servers, OfAllWorkersAreGatherBitForBit) {
  for (const char* codec : {"none", "qsgd(bits=4)", "ef | topk(0.1)", "momentum | topk(0.1) | qsgd(bits=4)"}) {
    for (const int servers : {1, 2}) {
      if (servers > GetParam()) continue;
      run_threads(GetParam(), 20s, [&](Communicator& communicator) {
        const auto clone = communicator.clone();
        const char* optimiser = std::string_view(codec).starts_with("momentum") ? "sgd" : "adam";
        Perceptron worker(communicator.rank(), optimiser), other(communicator.rank(), optimiser);
        AlgorithmOptions options;
        options.phases = test::read_phases(codec, "gather");
        const auto sync = make_algorithm(test::algorithm("sync"), options, other.buckets(), *clone);
        const std::string expression = with("down=f32, servers=" + std::to_string(servers));
        const auto served = make_served(expression, codec, worker, communicator);
        for (std::uint64_t step = 0; step < 12; ++step) {
          const double loss = sync->step(other, {step, 0.01, false}).loss;
          EXPECT_EQ(served->step(worker, {step, 0.01, false}).loss, loss);
          expect_same_bits(worker.parameters(), other.parameters(), expression + codec);
        }
        served->drain();
        expect_same_bits(worker.parameters(), other.parameters(), "at rest");
      });
    }
  }
}

TEST_P(Servers, KeepReplicasEqualWithCodedModels) {
  for (const char* expression : {"servers=1", "down=sign(block=64)", "down=(topk(0.2) | qsgd(bits=6))"}) {
    run_threads(GetParam(), 20s, [&](Communicator& communicator) {
      Perceptron worker(communicator.rank(), "sgd(momentum=0.5)");
      const auto served = make_served(with(expression), "ef | topk(0.2)", worker, communicator);
      double first = 0, last = 0;
      for (std::uint64_t step = 0; step < 60; ++step) {
        last = served->step(worker, {step, 0.05, false}).loss;
        if (step == 0) first = last;
        expect_replicas(worker.parameters(), communicator, expression);
      }
      EXPECT_LT(last, 0.7 * first) << expression;
      served->drain();
      expect_replicas(worker.parameters(), communicator, expression);
    });
  }
}

// The sum of |x - (r + 1)|^2 / 2 is least at the mean of the targets. A barrier every four steps keeps ranks together
// where the mode does not.
TEST_P(Servers, ComeToTheLeastSum) {
  const int ranks = GetParam();
  const double target = (ranks + 1) / 2.0;
  const std::string all = std::to_string(ranks);
  for (const auto& [expression, codec, near] : {std::tuple{with("mode=sync"), "none", 1e-3},
                                                {with("mode=sync"), "qsgd(bits=4)", 0.05},
                                                {with("mode=sync, down=topk(0.3)"), "ef | topk(0.3)", 0.05},
                                                {with("gradients=" + all), "none", 1e-3},
                                                {with("mode=stale, bound=0"), "none", 0.05},
                                                {with("mode=stale, bound=3"), "none", 0.05},
                                                {with("mode=stale, bound=2, down=qsgd(bits=6)"), "f16", 0.1},
                                                {with("mode=async"), "none", 0.1},
                                                {with("mode=async, down=topk(0.5)"), "qsgd(bits=4)", 0.1}}) {
    run_threads(ranks, 20s, [&, &expression = expression, &codec = codec, &near = near](Communicator& communicator) {
      Quadratic worker(communicator.rank());
      const auto served = make_served(expression, codec, worker, communicator);
      for (std::uint64_t step = 0; step < 500; ++step) {
        served->step(worker, {step, 0.01, false});
        if (step % 4 == 3) communicator.barrier();
      }
      served->drain();
      for (const std::size_t i : {0U, 3U, 33U, 50U}) {
        EXPECT_NEAR(worker.parameters()[i], target, near) << expression << ", " << codec;
      }
      expect_replicas(worker.parameters(), communicator, expression);
    });
  }
}

// All workers have the same target, so it does not matter which of them are in time. Late gradients are dropped or
// carried.
TEST_P(Servers, OfSomeWorkersComeToWhatAllWant) {
  const std::string some = "gradients=" + std::to_string(std::min(2, GetParam()));
  for (const std::string& expression : {some, some + ", late=carry", std::string("gradients=1, down=topk(0.5)")}) {
    run_threads(GetParam(), 20s, [&](Communicator& communicator) {
      Quadratic worker(1);
      const auto served = make_served(with(expression), "none", worker, communicator);
      for (std::uint64_t step = 0; step < 400; ++step) served->step(worker, {step, 0.02, false});
      served->drain();
      EXPECT_NEAR(worker.parameters()[3], 2, 0.01) << expression;
      expect_replicas(worker.parameters(), communicator, expression);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Servers, testing::Values(1, 2, 3, 4, 7));

TEST(ParameterServer, WithServersThatDoNothingElse) {
  for (const char* expression : {"dedicated=true", "servers=2, dedicated=true", "servers=2, dedicated=true, mode=async",
                                 "dedicated=true, down=topk(0.3)", "dedicated=true, mode=stale, bound=1",
                                 "servers=2, dedicated=true, gradients=1"}) {
    const int idle = idle_ranks(test::algorithm(with(expression)), 4);
    ASSERT_EQ(idle, std::string_view(expression).starts_with("servers=2") ? 2 : 1);
    run_threads(4, 20s, [&](Communicator& communicator) {
      Quadratic worker(communicator.rank() < idle ? 77 : 1);  // a dedicated server's own gradient must not matter
      worker.fails = communicator.rank() < idle;
      const auto served = make_served(with(expression), "none", worker, communicator);
      StepReport report;
      for (std::uint64_t step = 0; step < 400; ++step) report = served->step(worker, {step, 0.02, false});
      // With `async` a server may have heard of an early loss alone.
      const bool may_be_early = worker.fails && std::string_view(expression).ends_with("async");
      EXPECT_TRUE(report.loss < 1e-3 || may_be_early) << expression << ": " << report.loss;
      served->drain();
      EXPECT_NEAR(worker.parameters()[3], 2, 0.01) << expression;
      expect_replicas(worker.parameters(), communicator, expression);
      served->step(worker, {400, 0.02, false});
      served->drain();
      served->drain();
      expect_replicas(worker.parameters(), communicator, expression);
    });
  }
}

// The formula of docs/algorithms/parameter_server.md. All messages of these codecs have the largest size, max_bytes.
TEST(ParameterServer, SendsWhatTheFormulaSays) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const auto& [expression, servers, dedicated] : {std::tuple{"servers=1", 1, false},
                                                         {"servers=2, down=f16", 2, false},
                                                         {"dedicated=true", 1, true},
                                                         {"servers=2, dedicated=true", 2, true},
                                                         {"gradients=1", 1, false},
                                                         {"mode=async", 1, false},
                                                         {"mode=stale, servers=2", 2, false}}) {
      if (servers + (dedicated ? 1 : 0) > ranks) continue;
      const std::string down = std::string_view(expression).ends_with("f16") ? "f16" : "qsgd(bits=4)";
      // A server sends reminders after a quarter of the deadline, which a slow machine must not reach.
      run_threads(
          ranks, 600s,
          [&, &expression = expression, &servers = servers, &dedicated = dedicated](Communicator& communicator) {
            Perceptron worker(communicator.rank(), "sgd");
            const auto served = make_served(with(expression), "qsgd(bits=4)", worker, communicator);
            const int rank = communicator.rank();
            const auto shards = share_out(worker.buckets(), static_cast<std::size_t>(servers));
            const auto workers = static_cast<std::uint64_t>(dedicated ? ranks - servers : ranks);
            const bool serves = rank < servers, trains = !dedicated || !serves;
            std::vector<BucketPlan> mine;
            if (serves) {
              for (const Shard::Part& part : shards[static_cast<std::size_t>(rank)].parts()) mine.push_back(part.plan);
            }
            constexpr std::uint64_t note = ServerNote::bytes;
            std::uint64_t step_bytes = 0, rest_bytes = 0;
            if (trains) {
              const auto others = static_cast<std::uint64_t>(servers - (serves ? 1 : 0));
              step_bytes +=
                  message_bytes("qsgd(bits=4)", worker.buckets()) - message_bytes("qsgd(bits=4)", mine) + note * others;
              rest_bytes += note * others;
            } else if (rank > 0) {
              step_bytes += note;
              rest_bytes += note;
            }
            if (serves) {
              const std::uint64_t others = workers - (trains ? 1 : 0);
              step_bytes += others * (note + message_bytes(down, mine));
              rest_bytes += others * note;
              if (dedicated && rank == 0) {
                step_bytes += note * static_cast<std::uint64_t>(servers - 1);
                rest_bytes += note * static_cast<std::uint64_t>(servers - 1);
              }
            }
            std::uint64_t before = served->status().traffic.bytes_sent;
            for (std::uint64_t step = 0; step < 4; ++step) served->step(worker, {step, 0.01, false});
            served->drain();
            EXPECT_EQ(served->status().traffic.bytes_sent - before, 4 * step_bytes + rest_bytes)
                << expression << ", " << ranks;
            before = served->status().traffic.bytes_sent;
            served->drain();
            EXPECT_EQ(served->status().traffic.bytes_sent - before, rest_bytes) << expression << ", " << ranks;
          });
    }
  }
}

TEST(ParameterServer, ResumesToTheSameBits) {
  for (const auto& [expression, codec] : {std::tuple{"servers=1", "none"},
                                          {"servers=2", "ef | topk(0.05) | qsgd(bits=4)"},
                                          {"down=topk(0.2)", "svd | topk(0.5)"},
                                          {"dedicated=true, down=sign(block=32)", "momentum | topk(0.1)"},
                                          {"down=svd(2)", "qsgd(bits=4)"}}) {
    run_threads(3, 20s, [&, &expression = expression, &codec = codec](Communicator& communicator) {
      const auto clone = communicator.clone();
      Perceptron worker(communicator.rank(), "sgd(momentum=0.5)"), other(communicator.rank(), "sgd(momentum=0.5)");
      const auto algorithm = make_served(with(expression), codec, worker, communicator);
      const auto again = make_served(with(expression), codec, other, *clone);
      for (std::uint64_t step = 0; step < 16; ++step) {
        if (step == 9) {
          algorithm->drain();
          std::ranges::copy(worker.parameters(), other.parameters().begin());
          again->enter(step);
          test::hand_over(*algorithm, *again);
          test::hand_over(worker.optimiser(), other.optimiser());
        }
        algorithm->step(worker, {step, 0.02, false});
        if (step < 9) continue;
        again->step(other, {step, 0.02, false});
        algorithm->drain();
        again->drain();
        expect_same_bits(other.parameters(), worker.parameters(), expression);
      }
    });
  }
}

// How the buckets of a model are shared out among servers.
TEST(Shards, AreBalancedAndWhole) {
  Layout layout;
  for (const std::int64_t size : {100, 1600, 300, 800, 200, 700, 64}) layout.append("x", {size});
  const auto buckets = plan_buckets(layout, 64);
  for (const std::size_t servers : {1U, 2U, 3U, 5U}) {
    const auto shards = share_out(buckets, servers);
    std::vector<float> flat(layout.size()), back(layout.size());
    std::iota(flat.begin(), flat.end(), 1.0F);
    std::size_t most = 0;
    for (const Shard& shard : shards) {
      std::vector<float> own(shard.size());
      shard.gather(flat, own);
      shard.scatter(own, back);
      most = std::max(most, shard.size());
      EXPECT_FALSE(shard.parts().empty());
    }
    EXPECT_EQ(back, flat);
    EXPECT_LE(most, std::max<std::size_t>(1600, layout.size() * 4 / (3 * servers) + 16)) << servers;
  }
}

}  // namespace
}  // namespace sotto
