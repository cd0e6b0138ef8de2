// Averaging in pairs: the arithmetic and the protocol, against a peer that the test itself plays.
#include "sotto/algorithm/ad_psgd/averager.h"

#include <gtest/gtest.h>

#include <barrier>
#include <latch>
#include <numeric>

#include "sotto/aggregate/gossiper.h"
#include "sotto/comm/threads.h"
#include "sotto/core/error.h"
#include "sotto/topology/table.h"
#include "tests/algorithm/played_pair.h"
#include "tests/support/message_of.h"
#include "tests/support/specs.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::all;
using test::message_of;
using test::model;
using test::Played;
using Kind = PairNote::Kind;

auto adds(float value) {
  return [value](std::span<float> x) {
    for (float& element : x) element += value;
  };
}

void wait_until(const std::function<bool()>& condition) {
  const auto until = Clock::now() + 20s;
  while (!condition()) {
    if (Clock::now() > until) throw CommError("waited in vain");
    std::this_thread::sleep_for(1ms);
  }
}

// Counts the latch down at the end of a block, also when an exception ends it.
class Telling {
 public:
  explicit Telling(std::latch& latch) : latch_(latch) {}
  ~Telling() { latch_.count_down(); }

 private:
  std::latch& latch_;
};

// Waits until read() fails; returns its error.
std::string error_of(Averager& averager) {
  auto x = all(1);
  std::string error;
  const auto failed = [&] { return !(error = message_of([&] { averager.read(x); })).empty(); };
  wait_until(failed);
  return error;
}

TEST(Averaging, WhoAnswersMovesHalfWayWhateverStepsAreTakenMeanwhile) {
  std::barrier<> both(2);
  run_threads(2, 20s, [&](Communicator& communicator) {
    if (communicator.rank() == 1) {
      Played active(communicator);
      active.send(0, Kind::request, 2);  // the request waits until rank 0 begins
      both.arrive_and_wait();
      EXPECT_EQ(active.next(Kind::answer).second, 1.25F);
      active.note.number = 1;
      active.send(0, Kind::request, 4);
      EXPECT_EQ(active.next(Kind::answer).first.number, 1U);
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

TEST(Averaging, WhoAsksAddsTheDifferenceToWhatItHasByThen) {
  std::barrier<> both(2);
  run_threads(2, 20s, [&](Communicator& communicator) {
    if (communicator.rank() == 0) {
      Played passive(communicator);
      const auto [note, value] = passive.next(Kind::request);
      EXPECT_EQ(value, 1.5F);
      EXPECT_EQ(note.steps, (std::vector<std::uint64_t>{0, 2}));
      both.arrive_and_wait();
      both.arrive_and_wait();
      passive.note.steps = {7, 2};
      passive.send(1, Kind::answer, 3);
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
          averager.rest();
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
      averager.rest();
      communicator.barrier();
      EXPECT_EQ(averager.traffic().bytes_sent, averager.exchanges() * (message + note) + averager.notes_sent() * note);
      EXPECT_TRUE(communicator.rank() % 2 == 0 || averager.exchanges() == 20) << averager.exchanges();
      communicator.barrier();
    });
  }
}

TEST(Averaging, GoesOnWithoutThoseThatLeft) {
  run_threads(2, 20s, [&](Communicator& communicator) {
    if (communicator.rank() == 0) {
      Played(communicator).next(Kind::request);  // it never answers
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
    averager.rest();
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
      other.note.steps = {6, 0};  // it has gone on
      other.send(1, Kind::news);
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
    averager.rest();
    wait_until([&] { return averager.known_steps() == 8; });
    EXPECT_EQ(averager.steps(), (std::vector<std::uint64_t>{5, 1}));
    averager.read(x);
    EXPECT_EQ(averager.steps(), (std::vector<std::uint64_t>{7, 1}));
    EXPECT_TRUE(averager.step(adds(1), false, timings));  // the other rank is at the next meeting
    averager.rest();
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
        while (other.next(Kind::news).first.meeting < 2) {
        }
        other.note.meeting = 2;
        other.send(1, Kind::request, 5);
        other.send(1, Kind::question);
        other.next(Kind::news);  // mail is read in order, so the request was read
        asked.count_down();
        EXPECT_EQ(other.next(Kind::answer).second, 7);
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
    averager.rest();
    EXPECT_EQ(x, all(2));
    x = all(7);  // as if the ranks had averaged their models
    averager.rest();
    averager.read(x);
    done.wait();
  });
}

TEST(Averaging, NamesAStalledRank) {
  for (const bool asks : {true, false}) {
    std::latch told(1);
    run_threads(2, 1s, [&](Communicator& communicator) {
      if (communicator.rank() == 0) {
        Played silent(communicator);
        told.wait();
        return;
      }
      const Telling telling(told);
      Averager averager({asks ? std::vector{0} : std::vector<int>{}, 1}, model(), {.seed = 1}, communicator);
      Timings timings;
      auto x = all(1);
      averager.read(x);
      averager.step(adds(1), false, timings);
      const std::string error = message_of([&] { asks ? averager.wait_for_answer() : averager.rest(); });
      EXPECT_NE(error.find(asks ? "rank 0 was asked for its model and said nothing for 1 s"
                                : "rank 0 is waited for and said nothing for 1 s"),
                std::string::npos)
          << error;
    });
  }
}

// A rank that answers questions may itself wait for the lost rank.
TEST(Averaging, NamesTheSilentRankOfTwoThatItWaitsFor) {
  std::latch told(1);
  run_threads(3, 2s, [&](Communicator& communicator) {
    if (communicator.rank() == 0) {
      Played waiting(communicator);
      waiting.answer_questions_of(1, [&] { return told.try_wait(); });
      return;
    }
    if (communicator.rank() == 2) {
      Played silent(communicator);
      told.wait();
      return;
    }
    const Telling telling(told);
    Averager averager({{}, 1}, model(), {.seed = 1}, communicator);
    Timings timings;
    auto x = all(1);
    averager.read(x);
    averager.step(adds(1), false, timings);
    const std::string error = message_of([&] { averager.rest(); });
    EXPECT_NE(error.find("rank 2 is waited for and said nothing for 2 s"), std::string::npos) << error;
  });
}

TEST(Averaging, NamesARankThatAnswersAndMakesNoStep) {
  std::latch told(1);
  run_threads(2, 1s, [&](Communicator& communicator) {
    if (communicator.rank() == 0) {
      Played standing(communicator);
      standing.answer_questions_of(1, [&] { return told.try_wait(); });
      return;
    }
    const Telling telling(told);
    Averager averager({{}, 1}, model(), {.seed = 1}, communicator);
    Timings timings;
    auto x = all(1);
    averager.read(x);
    averager.step(adds(1), false, timings);
    const std::string error = message_of([&] { averager.rest(); });
    EXPECT_NE(error.find("rank 0 made no step that is waited for for 2 s"), std::string::npos) << error;
  });
}

TEST(Averaging, RefusesWhatNobodyShouldSend) {
  const auto refused = [](bool passive, const std::function<void(Played&)>& play, const char* words) {
    std::latch told(1);
    run_threads(2, 20s, [&](Communicator& communicator) {
      if (communicator.rank() == 0) {
        Played bad(communicator);
        play(bad);
        told.wait();
        return;
      }
      const Telling telling(told);
      Averager averager({passive ? std::vector<int>{} : std::vector{0}, 1}, model(), {.seed = 1}, communicator);
      SCOPED_TRACE(words);
      std::string error;
      EXPECT_EQ(message_of([&] { error = error_of(averager); }), "");
      EXPECT_NE(error.find("rank 1: message of rank 0: "), std::string::npos) << error;
      EXPECT_NE(error.find(words), std::string::npos) << error;
    });
  };
  refused(
      true, [](Played& bad) { bad.send(1, std::vector<std::byte>(3)); }, "truncated note");
  refused(
      false, [](Played& bad) { bad.send(1, Kind::answer, 1); }, "which this rank does not wait for");
  refused(
      false, [](Played& bad) { bad.send(1, Kind::request, 1); }, "one of those that ask");
  refused(
      true, [](Played& bad) { bad.note.generation = 3, bad.send(1, Kind::news); }, "another group");
  refused(
      true, [](Played& bad) { bad.note.steps[0] = 3, bad.note.end = 5, bad.send(1, Kind::news); },
      "after step 5, and has made 3");
  const auto spoilt = [](auto change) {
    return [change](Played& bad) {
      auto letter = bad.letter(Kind::request, 1);
      change(letter);
      bad.send(1, letter);
    };
  };
  refused(true, spoilt([](auto& letter) { letter.pop_back(); }), "");
  refused(true, spoilt([](auto& letter) { letter.resize(PairNote::bytes(2)); }), "");
  refused(true, spoilt([](auto& letter) { letter.back() ^= std::byte{1}; }), "");
  refused(true, spoilt([](auto& letter) { letter[24] = std::byte{1}; }), "");  // the message is of another step
}

}  // namespace
}  // namespace sotto
