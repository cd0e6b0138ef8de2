// Averaging in pairs with a peer that is silent, stands still or sends what nobody should; the test plays it.
#include <gtest/gtest.h>

#include "sotto/algorithm/ad_psgd/averager.h"
#include "sotto/comm/emulated/threads.h"
#include "tests/algorithm/played_pair.h"
#include "tests/support/message_of.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::adds;
using test::all;
using test::message_of;
using test::model;
using test::Played;
using test::Telling;
using test::wait_until;
using Kind = PairNote::Kind;

// What goes wrong sooner or later.
std::string error_of(Averager& averager) {
  auto x = all(1);
  std::string error;
  const auto failed = [&] { return !(error = message_of([&] { averager.read(x); })).empty(); };
  wait_until(failed);
  return error;
}

// Rank 1 takes a step, and waits for an answer, or for the others at a rest. Of these only rank 0 may answer questions.
void expect_lost(int ranks, std::chrono::milliseconds deadline, bool asks, bool answers, const char* words) {
  std::latch told(1);
  run_threads(ranks, deadline, [&](Communicator& communicator) {
    if (communicator.rank() != 1) {
      Played other(communicator);
      if (answers && communicator.rank() == 0) other.answer_questions_of(1, [&] { return told.try_wait(); });
      told.wait();
      return;
    }
    const Telling telling(told);
    Averager averager({asks ? std::vector{0} : std::vector<int>{}, 1}, model(), {.seed = 1}, communicator);
    Timings timings;
    auto x = all(1);
    averager.read(x);
    averager.step(adds(1), false, timings);
    const std::string error = message_of([&] { asks ? averager.wait_for_answer() : averager.rest(x); });
    EXPECT_NE(error.find(words), std::string::npos) << error;
  });
}

TEST(AveragingErrors, NameAStalledRank) {
  expect_lost(2, 1s, true, false, "rank 0 was asked for its model and said nothing for 1 s");
  expect_lost(2, 1s, false, false, "rank 0 is waited for and said nothing for 1 s");
}

TEST(AveragingErrors, NameWhoDoesNotSendTheModelThatItAnnounced) {
  for (const bool answers : {false, true}) {
    std::latch told(1), begun(1);
    run_threads(2, 1s, [&](Communicator& communicator) {
      if (communicator.rank() == 0) {
        Played other(communicator);
        begun.wait();  // a request that comes before would not be answered early
        other.send(1, Kind::request);
        other.next(Kind::model);
        other.note.meeting = 1;
        other.send(1, Kind::news);
        if (answers) other.answer_questions_of(1, [&] { return told.try_wait(); });
        told.wait();
        return;
      }
      const Telling telling(told);
      Averager averager({}, model(), {.seed = 1}, communicator);
      auto x = all(1);
      averager.read(x);
      begun.count_down();
      const std::string error = message_of([&] { averager.rest(x); });
      EXPECT_NE(error.find("rank 0 has not sent the model that it announced for "), std::string::npos) << error;
    });
  }
}

// A rank that answers questions may itself wait for the one that is lost.
TEST(AveragingErrors, NameTheSilentRankOfTwoThatItWaitsFor) {
  expect_lost(3, 2s, false, true, "rank 2 is waited for and said nothing for 2 s");
}

TEST(AveragingErrors, NameARankThatAnswersAndMakesNoStep) {
  expect_lost(2, 1s, false, true, "rank 0 made no step that is waited for for 2 s");
}

TEST(AveragingErrors, RefuseWhatNobodyShouldSend) {
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
      false, [](Played& bad) { bad.send(1, Kind::model, 1); }, "which this rank does not wait for");
  refused(
      false, [](Played& bad) { bad.send(1, Kind::request); }, "one of those that ask");
  refused(
      true, [](Played& bad) { bad.note.generation = 3, bad.send(1, Kind::news); }, "another group");
  refused(
      true, [](Played& bad) { bad.note.steps[0] = 3, bad.note.end = 5, bad.send(1, Kind::news); },
      "after step 5, and has made 3");
  const auto spoilt = [](auto change) {
    return [change](Played& bad) {
      auto letter = bad.letter(Kind::model, 1);
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
