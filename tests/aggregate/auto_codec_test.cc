#include "sotto/aggregate/auto_codec.h"
#include "sotto/aggregate/recipe.h"

#include <gtest/gtest.h>

#include <array>

#include "sotto/core/error.h"
#include "tests/aggregate/group.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::average_all, test::message_of, test::sample_gradient, test::sample_layout, test::state_of;

constexpr std::array codecs{"none", "f16", "qsgd(bits=4)"};
constexpr int trials = static_cast<int>(AutoCodec::rounds * codecs.size());

std::vector<BucketPlan> sample_buckets() { return plan_buckets(sample_layout(), 1200); }

// The aggregator of one rank; the test sets its clock.
struct Trial {
  explicit Trial(Communicator& communicator) {
    std::vector<AutoCodec::Candidate> candidates;
    for (const char* codec : codecs) {
      candidates.push_back({codec, make_aggregator(read_recipe(codec), sample_buckets(), communicator)});
    }
    aggregator = std::make_unique<AutoCodec>(std::move(candidates), communicator.size(), [this] { return now; });
  }
  double now = 100;
  std::unique_ptr<AutoCodec> aggregator;
};

// The remark of each rank after all steps, where `of` says how many milliseconds a step takes with each codec.
using Milliseconds = std::array<double, 3>;
std::vector<std::string> remarks(int ranks, const std::function<Milliseconds(int rank, int step)>& of) {
  std::vector<std::string> found(static_cast<std::size_t>(ranks));
  run_threads(ranks, 20s, [&](Communicator& communicator) {
    Trial trial(communicator);
    for (int step = 0; step < trials + 3; ++step) {
      auto values = sample_gradient(sample_layout(), communicator.rank(), step);
      average_all(*trial.aggregator, sample_buckets(), values, step, communicator);
      EXPECT_EQ(trial.aggregator->remark().empty(), step < trials || ranks == 1) << step;
      trial.now += 1e-3 * of(communicator.rank(), step)[static_cast<std::size_t>(step) % codecs.size()];
    }
    found[static_cast<std::size_t>(communicator.rank())] = trial.aggregator->remark();
  });
  return found;
}

void expect_all(const std::vector<std::string>& remarks, const std::string& part) {
  for (const std::string& remark : remarks) {
    EXPECT_NE(remark.find(part), std::string::npos) << remark;
    EXPECT_EQ(remark, remarks[0]) << "every rank says the same";
  }
}

TEST(AutoCodec, KeepsTheQuickest) {
  expect_all(remarks(2,
                     [](int, int) {
                       return Milliseconds{30, 20, 10};
                     }),
             "codec: qsgd(bits=4) 10.00 ms a step, against none 30.00, f16 20.00; aggregator: gather, ");
  expect_all(remarks(3,
                     [](int, int) {
                       return Milliseconds{30, 9, 10};
                     }),
             "codec: f16 9.00 ms a step, against none 30.00, qsgd(bits=4) 10.00; aggregator: all_reduce");
}

TEST(AutoCodec, SendsDenseUnlessAnotherIsClearlyQuicker) {
  const std::string dense = "codec: none 10.00 ms a step, against f16 9.60, qsgd(bits=4) 11.00";
  expect_all(remarks(2, [](int, int) { return Milliseconds{10, 9.6, 11}; }), dense);
  expect_all(remarks(2, [](int, int) { return Milliseconds{10, 9.4, 11}; }), "codec: f16 9.40");
}

TEST(AutoCodec, RanksDecideTogetherByMediansWithoutTheFirstRound) {
  // By its own times, rank 0 would choose none and rank 1 qsgd.
  expect_all(remarks(2,
                     [](int rank, int) {
                       return rank == 0 ? Milliseconds{10, 20, 11} : Milliseconds{40, 20, 11};
                     }),
             "codec: qsgd(bits=4) 11.00 ms a step, against none 25.00, f16 20.00");
  // The first steps are slow, and an evaluation now and then makes a step longer.
  expect_all(
      remarks(2,
              [](int, int step) {
                if (step < 3) return Milliseconds{1, 900, 900};
                return step == 9 || step == 10 || step == 11 ? Milliseconds{5, 500, 500} : Milliseconds{30, 20, 10};
              }),
      "codec: qsgd(bits=4) 10.00 ms a step, against none 30.00, f16 20.00");
}

TEST(AutoCodec, OneRankSendsNothingAndMeasuresNothing) {
  EXPECT_EQ(remarks(1, [](int, int) { return Milliseconds{30, 20, 10}; })[0], "");
}

TEST(AutoCodec, SendsWithEachInTurns) {
  run_threads(2, 20s, [&](Communicator& communicator) {
    Trial trial(communicator);
    for (int step = 0; step < trials; ++step) {
      auto values = sample_gradient(sample_layout(), communicator.rank(), step);
      auto same = values;
      average_all(*trial.aggregator, sample_buckets(), values, step, communicator);
      const auto alone =
          make_aggregator(read_recipe(codecs[static_cast<std::size_t>(step) % 3]), sample_buckets(), communicator);
      average_all(*alone, sample_buckets(), same, step, communicator);
      EXPECT_EQ(values, same) << step;
    }
  });
}

// The state is saved in the middle of the trial, and after the choice.
TEST(AutoCodec, GoesOnWhereItWas) {
  for (const int saved : {5, trials + 1}) {
    run_threads(2, 20s, [&](Communicator& communicator) {
      Trial whole(communicator);
      Trial resumed(communicator);
      const Milliseconds ms{30, 20, 10};
      for (int step = 0; step <= saved; ++step) {
        auto values = sample_gradient(sample_layout(), communicator.rank(), step);
        average_all(*whole.aggregator, sample_buckets(), values, step, communicator);
        whole.now += 1e-3 * ms[static_cast<std::size_t>(step) % 3];
      }
      resumed.now = 5;  // the clock of another process
      test::restore(*resumed.aggregator, state_of(*whole.aggregator));
      EXPECT_EQ(resumed.aggregator->remark(), whole.aggregator->remark());
      EXPECT_EQ(resumed.aggregator->remark().empty(), saved == 5);
      // The resumed run repeats step `saved`, so the turns go on with the codec of that step.
      for (int step = saved; step < trials + 3; ++step) {
        auto values = sample_gradient(sample_layout(), communicator.rank(), step);
        average_all(*resumed.aggregator, sample_buckets(), values, step, communicator);
        resumed.now += 1e-3 * ms[static_cast<std::size_t>(step) % 3];
      }
      EXPECT_EQ(resumed.aggregator->remark().find("codec: qsgd(bits=4) 10.00 ms"), 0U) << resumed.aggregator->remark();
      test::State bad = state_of(*resumed.aggregator);
      bad.numbers.at("auto_codec/choice") = 4;
      EXPECT_THROW(test::restore(*resumed.aggregator, bad), FileError);
    });
  }
}

TEST(AutoCodec, IsAWholeMethod) {
  EXPECT_EQ(read_recipe("auto").text(), "auto");
  run_threads(2, 20s, [&](Communicator& communicator) {
    const auto make = [&](const char* name, const char* method) {
      return make_aggregator(read_recipe(method, name), sample_buckets(), communicator);
    };
    EXPECT_EQ(make("auto", "auto")->name(), "all_reduce");
    EXPECT_EQ(make("gather", "auto")->name(), "gather");
    for (const char* bad : {"ef | auto", "auto | f16", "auto(3)"}) {
      EXPECT_NE(message_of([&] { make("auto", bad); }), "") << bad;
    }
    const auto text = message_of([&] { make("all_reduce", "auto"); });
    EXPECT_NE(text.find("qsgd"), std::string::npos) << text;
  });
}

}  // namespace
}  // namespace sotto
