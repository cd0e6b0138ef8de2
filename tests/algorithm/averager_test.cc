// Averaging in pairs: the arithmetic and the protocol, against a peer that the test itself plays.
#include "sotto/algorithm/ad_psgd/averager.h"

#include <gtest/gtest.h>

#include <barrier>
#include <latch>
#include <numeric>

#include "sotto/aggregate/gossiper.h"
#include "sotto/comm/emulated/threads.h"
#include "sotto/topology/table.h"
#include "tests/algorithm/played_pair.h"
#include "tests/support/specs.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::adds;
using test::all;
using test::model;
using test::Played;
using test::Telling;
using test::wait_until;
using Kind = PairNote::Kind;

TEST(Averaging, WhoAnswersMovesHalfWayWhateverStepsAreTakenMeanwhile) {
  std::barrier<> both(2);
  run_threads(2, 20s, [&](Communicator& communicator) {
    if (communicator.rank() == 1) {
      Played active(communicator);
      active.send(0, Kind::model, 2);  // it waits until rank 0 begins
      both.arrive_and_wait();
      EXPECT_EQ(active.next(Kind::model).second, 1.25F);
      active.note.number = 1;
      active.send(0, Kind::model, 4);
      EXPECT_EQ(active.next(Kind::model).first.number, 1U);
      both.arrive_and_wait();
      return;
    }
    Averager averager({}, model(), {.seed = 1}, communicator);
    Timings timings;
    both.arrive_and_wait();
    auto x = all(1.25F);
    EXPECT_EQ(averager.exchanges(), 0U);
    averager.read(x);
    wait_until([&] { return averager.exchanges() > 0; });
    averager.step(adds(0.5F), false, timings);
    wait_until([&] { return averager.exchanges() > 1; });
    averager.read(x);
    // The first exchange makes 1.25 + (2 - 1.25) / 2 = 1.625. The second moves half way towards 4; the step of 0.5
    // comes before or after it.
    EXPECT_EQ(averager.known_steps(), 1U);
    EXPECT_TRUE(x == all(1.625F + 0.5F + (4 - 1.625F - 0.5F) / 2) || x == all(1.625F + (4 - 1.625F) / 2 + 0.5F))
        << x[0];
    both.arrive_and_wait();
  });
}

// Rank 1's model comes after it was answered, and after rank 2's was.
TEST(Averaging, AnswersARequestBeforeTheModelComes) {
  std::barrier<> others(2);
  std::latch begun(1);
  run_threads(3, 20s, [&](Communicator& communicator) {
    if (communicator.rank() == 1) {
      Played early(communicator);
      begun.wait();  // a request that comes before would not be answered early
      early.send(0, Kind::request);
      EXPECT_EQ(early.next(Kind::model).second, 1);
      others.arrive_and_wait();
      others.arrive_and_wait();
      early.note.meeting = 1;  // rank 0 hears that all have come, and still waits for the model
      early.send(0, Kind::news);
      early.send(0, Kind::question);
      early.next(Kind::news);
      early.send(0, Kind::model, 4);
      others.arrive_and_wait();
      return;
    }
    if (communicator.rank() == 2) {
      Played late(communicator);
      others.arrive_and_wait();
      late.send(0, Kind::request);  // of which nothing comes: one rank was answered early, and that is enough
      late.send(0, Kind::question);
      EXPECT_EQ(late.next(Kind::news).first.kind, Kind::news);
      late.send(0, Kind::model, 2);
      EXPECT_EQ(late.next(Kind::model).second, 1);
      late.note.meeting = 1;
      late.send(0, Kind::news);
      late.send(0, Kind::question);
      late.next(Kind::news);
      others.arrive_and_wait();
      others.arrive_and_wait();
      return;
    }
    Averager averager({}, model(), {.seed = 1}, communicator);
    auto x = all(1);
    averager.read(x);
    begun.count_down();
    averager.rest(x);
    EXPECT_EQ(x, all(1 + (2 - 1) / 2.0F + (4 - 1) / 2.0F));
    EXPECT_EQ(averager.exchanges(), 2U);
  });
}

// Two ranks come before the model of a third that was answered early: that one must wait from then on.
TEST(Averaging, DoesNotAnswerASlowRankEarlyAgain) {
  std::barrier<> others(2);
  std::latch begun(1);
  run_threads(3, 20s, [&](Communicator& communicator) {
    if (communicator.rank() == 0) {
      Averager averager({}, model(), {.seed = 1}, communicator);
      auto x = all(1);
      averager.read(x);
      begun.count_down();
      averager.rest(x);
      EXPECT_EQ(averager.exchanges(), 5U);
      return;
    }
    Played played(communicator);
    begun.wait();  // a request that comes before would not be answered early
    const auto exchange = [&] {
      played.send(0, Kind::model, 0);
      played.next(Kind::model);
    };
    if (communicator.rank() == 2) {
      others.arrive_and_wait();
      exchange();
      exchange();
      others.arrive_and_wait();
      others.arrive_and_wait();
      played.send(0, Kind::request);  // this rank is answered early as before
      EXPECT_EQ(played.next(Kind::model).second, -0.125F);
      played.send(0, Kind::model, 0);
    } else {
      played.send(0, Kind::request);
      EXPECT_EQ(played.next(Kind::model).second, 1);
      others.arrive_and_wait();
      others.arrive_and_wait();
      played.send(0, Kind::model, 0);  // makes 1 / 4 - 1 / 2
      played.send(0, Kind::request);
      played.send(0, Kind::question);
      EXPECT_EQ(played.next(Kind::news).first.kind, Kind::news);
      exchange();
      others.arrive_and_wait();
    }
    played.note.meeting = 1;
    played.send(0, Kind::news);
  });
}

TEST(Averaging, EndsWithoutTheModelThatItAnswered) {
  std::latch ended(1);
  std::latch begun(1);
  run_threads(2, 20s, [&](Communicator& communicator) {
    if (communicator.rank() == 1) {
      Played stalled(communicator);
      begun.wait();  // a request that comes before would not be answered early
      stalled.send(0, Kind::request);
      stalled.next(Kind::model);
      ended.wait();
      return;
    }
    const Telling telling(ended);
    Averager averager({}, model(), {.seed = 1}, communicator);
    auto x = all(1);
    averager.read(x);
    begun.count_down();
    wait_until([&] { return averager.exchange_bytes() > 0; });
  });
}

TEST(Averaging, ForgetsWhomItAnsweredIfThatRankLeaves) {
  std::latch begun(1);
  run_threads(2, 20s, [&](Communicator& communicator) {
    if (communicator.rank() == 1) {
      Played active(communicator);
      begun.wait();  // a request that comes before would not be answered early
      active.send(0, Kind::request);
      EXPECT_EQ(active.next(Kind::model).second, 1);
      return;
    }
    Averager averager({}, model(), {.seed = 1}, communicator);
    auto x = all(1);
    averager.read(x);
    begun.count_down();
    averager.rest(x);
    EXPECT_EQ(x, all(1));
  });
}

TEST(Averaging, WhoAsksAddsTheDifferenceToWhatItHasByThen) {
  std::barrier<> both(2);
  run_threads(2, 20s, [&](Communicator& communicator) {
    if (communicator.rank() == 0) {
      Played passive(communicator);
      const auto [note, value] = passive.next(Kind::model);
      EXPECT_EQ(value, 1.5F);
      EXPECT_EQ(note.steps, (std::vector<std::uint64_t>{0, 2}));
      both.arrive_and_wait();
      both.arrive_and_wait();
      passive.note.steps = {7, 2};
      passive.send(1, Kind::model, 3);
      both.arrive_and_wait();
      return;
    }
    Averager averager({{0}, 2}, model(), {.seed = 1}, communicator);
    Timings timings;
    auto x = all(1);
    averager.read(x);
    averager.step(adds(0.25F), false, timings);
    averager.step(adds(0.25F), false, timings);
    both.arrive_and_wait();
    averager.step(adds(0.25F), false, timings);  // while the request is on its way
    averager.read(x);
    EXPECT_EQ(x, all(1.75F));
    both.arrive_and_wait();
    averager.wait_for_answer();
    averager.read(x);
    EXPECT_EQ(x, all(1.75F + (3 - 1.5F) / 2));
    EXPECT_EQ(averager.known_steps(), 10U);
    EXPECT_EQ(averager.exchanges(), 1U);
    both.arrive_and_wait();
  });
}

// All values are multiples of a power of two that floats hold, so sums are exact: no step is lost, and nothing that a
// cast rounds off.
TEST(Averaging, KeepsTheSumToTheLastBit) {
  for (const char* codec : {"f16", "bf16"}) {
    for (const auto& [topology, ranks] : {std::pair{"bipartite_exponential", 4}, {"star", 3}, {"ring", 8}}) {
      run_threads(ranks, 60s, [&, ranks = ranks, topology = topology](Communicator& communicator) {
        const Topology graphs = make_topology(test::topology(topology), communicator.size());
        Averager averager(pair_plan(graphs, communicator.rank(), 0), model(codec), {.seed = 1}, communicator);
        auto x = all(1 + static_cast<float>(communicator.rank()) / 8);
        double sum = ranks + ranks * (ranks - 1) / 16.0;
        Timings timings;
        for (int meeting = 0; meeting < 5; ++meeting) {
          for (int step = 0; step < 40; ++step) {
            averager.read(x);
            averager.step(adds((step % 2 == 0 ? 0.0625F : -0.0625F) * static_cast<float>(1 + communicator.rank())),
                          false, timings);
            if (step % 10 == 0) averager.wait_for_answer();
          }
          averager.step(adds(0.03125F), false, timings);
          sum += ranks * 0.03125;
          averager.rest(x);
          for (const std::size_t i : {0U, 15U, 31U}) {
            double found = x[i];
            communicator.all_reduce(std::span(&found, 1));
            EXPECT_EQ(found, sum) << codec << ", " << topology << ", meeting " << meeting;
          }
        }
        EXPECT_GT(averager.exchanges(), 0U);
      });
    }
  }
}

TEST(Averaging, SendsWhatTheFormulaSays) {
  for (const int ranks : {2, 4, 6}) {
    run_threads(ranks, 20s, [&](Communicator& communicator) {
      const Topology graphs = make_topology(test::topology("bipartite_linear"), communicator.size());
      PairedModel paired = model("f16");
      const std::size_t message = paired.max_bytes(), note = PairNote::bytes(communicator.size());
      Averager averager(pair_plan(graphs, communicator.rank(), 1), std::move(paired), {.seed = 1}, communicator);
      Timings timings;
      auto x = all(1);
      for (int step = 0; step < 20; ++step) {
        averager.read(x);
        averager.step(adds(0.5F), false, timings);
        averager.wait_for_answer();
      }
      averager.rest(x);
      communicator.barrier();
      const std::size_t request = communicator.rank() % 2 == 1 ? note : 0;
      EXPECT_EQ(averager.exchange_bytes(), averager.exchanges() * (message + note + request));
      wait_until([&] {  // the last notes may be about to be sent
        return averager.traffic().bytes_sent == averager.exchange_bytes() + averager.notes_sent() * note;
      });
      EXPECT_TRUE(communicator.rank() % 2 == 0 || averager.exchanges() == 20) << averager.exchanges();
      communicator.barrier();
    });
  }
}

TEST(Averaging, GoesOnWithoutThoseThatLeft) {
  run_threads(2, 20s, [&](Communicator& communicator) {
    if (communicator.rank() == 0) {
      Played(communicator).next(Kind::model);  // it never answers
      return;
    }
    Averager averager({{0}, 1}, model(), {.seed = 1}, communicator);
    Timings timings;
    auto x = all(1);
    for (int step = 0; step < 3; ++step) {
      averager.read(x);
      averager.step(adds(1), false, timings);
      averager.wait_for_answer();
    }
    averager.rest(x);
    EXPECT_EQ(x, all(4));
    EXPECT_EQ(averager.exchanges(), 0U);
  });
}

TEST(Averaging, KnowsWhatAllHadMadeWhereTheyMet) {
  std::latch told(1);
  run_threads(2, 20s, [&](Communicator& communicator) {
    if (communicator.rank() == 0) {
      Played other(communicator);
      other.note.steps = {5, 0};
      other.note.meeting = 1;
      other.send(1, Kind::news);
      other.note.steps = {6, 0};
      other.note.number = 1;  // it has gone on
      other.send(1, Kind::news);
      other.note.number = 0;
      other.note.steps = {7, 0};
      other.note.meeting = 2;
      other.send(1, Kind::news);
      told.wait();
      return;
    }
    const Telling telling(told);
    Averager averager({{}, 2}, model(), {.seed = 1}, communicator);
    Timings timings;
    auto x = all(1);
    averager.read(x);
    averager.step(adds(1), false, timings);
    averager.rest(x);
    wait_until([&] { return averager.known_steps() == 8; });
    EXPECT_EQ(averager.steps(), (std::vector<std::uint64_t>{5, 1}));
    averager.read(x);
    EXPECT_EQ(averager.steps(), (std::vector<std::uint64_t>{7, 1}));
    EXPECT_TRUE(averager.step(adds(1), false, timings));  // the other one has come to the next
    averager.rest(x);
    EXPECT_EQ(averager.steps(), (std::vector<std::uint64_t>{7, 2}));
  });
}

// A caller that meets the others twice, with no step in between, may have changed its copy of the model meanwhile. A
// rank that has left the second meeting must be answered with the changed copy.
TEST(Averaging, GivesTheModelAwayOnlyAsTheCallerLeftIt) {
  std::latch asked(1), done(1);
  run_threads(3, 20s, [&](Communicator& communicator) {
    if (communicator.rank() != 1) {
      Played other(communicator);
      other.note.meeting = 1;
      other.send(1, Kind::news);
      if (communicator.rank() == 0) {
        const Telling telling(done);
        while (other.next(Kind::met).first.meeting < 2) {
        }
        other.note.meeting = 2;
        other.send(1, Kind::news);
        other.send(1, Kind::model, 5);
        other.send(1, Kind::question);
        other.next(Kind::news);  // mail is read in order, so the model was read
        asked.count_down();
        EXPECT_EQ(other.next(Kind::model).second, 7);
      } else {
        asked.wait();
        other.note.meeting = 2;
        other.send(1, Kind::news);
        done.wait();
      }
      return;
    }
    Averager averager({{}, 1}, model(), {.seed = 1}, communicator);
    Timings timings;
    auto x = all(1);
    averager.read(x);
    averager.step(adds(1), false, timings);
    averager.rest(x);
    EXPECT_EQ(x, all(2));
    x = all(7);  // as if the ranks had averaged their models
    averager.rest(x);
    averager.read(x);
    done.wait();
  });
}

}  // namespace
}  // namespace sotto
