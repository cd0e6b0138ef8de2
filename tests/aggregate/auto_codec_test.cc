#include "sotto/aggregate/auto_codec.h"

#include <gtest/gtest.h>

#include <array>

#include "sotto/core/error.h"
#include "tests/aggregate/group.h"
#include "tests/support/phases.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::average_all, test::message_of, test::read_phases, test::sample_buckets, test::sample_gradient,
    test::sample_layout, test::state_of;

constexpr std::array codecs{"none", "f16", "qsgd(bits=4)"};
// If no candidate is so slow that it leaves.
constexpr int trials = static_cast<int>(AutoCodec::rounds * codecs.size());

// Notes that it was used, and that its memory was given up.
class Noted final : public Aggregator {
 public:
  Noted(std::size_t index, std::vector<std::size_t>& used, std::vector<std::size_t>& retired)
      : index_(index), used_(used), retired_(retired) {}
  std::string_view name() const override { return "noted"; }
  void average(Bucket& /*bucket*/, const Key& /*key*/, const StepContext& /*step*/, Communicator& /*communicator*/,
               Timings& /*timings*/) override {
    used_.push_back(index_);
  }
  void visit_state(StateVisitor& /*visitor*/) override {}
  void retire() override { retired_.push_back(index_); }

 private:
  std::size_t index_;
  std::vector<std::size_t>&used_, &retired_;
};

// How many milliseconds a step takes with each candidate.
using Milliseconds = std::array<double, 3>;
using Times = std::function<Milliseconds(int rank, int step)>;

// The aggregator of one rank, whose clock goes by `of`.
struct Trial {
  Trial(Communicator& communicator, Times times) : rank(communicator.rank()), of(std::move(times)) {
    std::vector<AutoCodec::Candidate> candidates;
    for (std::size_t i = 0; i < codecs.size(); ++i) {
      candidates.push_back({codecs[i], std::make_unique<Noted>(i, used, retired)});
    }
    aggregator = std::make_unique<AutoCodec>(std::move(candidates), make_memory({}, {}), communicator.size(),
                                             [this] { return now; });
  }
  void step(int number, Communicator& communicator) {
    auto values = sample_gradient(sample_layout(), rank, number);
    average_all(*aggregator, sample_buckets(), values, number, communicator);
    now += 1e-3 * of(rank, number)[used.back()];
    turns.push_back(used.back());
  }
  int rank;
  Times of;
  double now = 100;
  std::vector<std::size_t> used, retired;  // by buckets
  std::vector<std::size_t> turns;          // by steps
  std::unique_ptr<AutoCodec> aggregator;
};

// The remark of each rank after all steps.
std::vector<std::string> remarks(int ranks, const Times& of, bool copies = false) {
  std::vector<std::string> found(static_cast<std::size_t>(ranks));
  run_threads(ranks, 20s, [&](Communicator& communicator) {
    Trial trial(communicator, of);
    for (int step = 0; step < trials + 3; ++step) {
      trial.step(step, communicator);
      if (copies) state_of(*trial.aggregator);  // as for a checkpoint
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

Times always(const Milliseconds& ms) {
  return [ms](int, int) { return ms; };
}

TEST(AutoCodec, ACopyOfItsStateEndsNoTrial) {
  EXPECT_EQ(remarks(2, always({11, 10.5, 9.5}), true), remarks(2, always({11, 10.5, 9.5})));
}

TEST(AutoCodec, KeepsTheQuickest) {
  expect_all(remarks(2, always({11, 10.5, 9.5})), "codec: qsgd(bits=4) 9.50 ms a step, against none 11.00, f16 10.50");
  expect_all(remarks(3, always({30, 9, 10})), "codec: f16 9.00 ms a step, against none 30.00, qsgd(bits=4) 10.00");
}

TEST(AutoCodec, ALaterCandidateMustBeClearlyQuicker) {
  expect_all(remarks(2, always({10, 9.6, 11})), "codec: none 10.00 ms a step, against f16 9.60, qsgd(bits=4) 11.00");
  expect_all(remarks(2, always({10, 9.4, 11})), "codec: f16 9.40");
  expect_all(remarks(2, always({10, 9.4, 9})), "codec: f16 9.40");
  expect_all(remarks(2, always({10, 9.4, 8.9})), "codec: qsgd(bits=4) 8.90");
}

// The steps of rank 0, which are the same on all ranks, until the choice.
std::vector<std::size_t> turns(const Times& of, std::vector<std::size_t>* retired = nullptr) {
  std::vector<std::size_t> found;
  run_threads(2, 20s, [&](Communicator& communicator) {
    Trial trial(communicator, of);
    int step = 0;
    while (trial.aggregator->remark().empty()) trial.step(step++, communicator);
    trial.turns.pop_back();  // the step in which the choice was made
    if (communicator.rank() != 0) return;
    found = trial.turns;
    if (retired != nullptr) *retired = trial.retired;
  });
  return found;
}

using Turns = std::vector<std::size_t>;

TEST(AutoCodec, CandidatesThatAreFarSlowerLeave) {
  EXPECT_EQ(turns(always({10, 10, 10})), (Turns{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}));
  // none is more than half slower after one counted round, f16 a fifth after two.
  Turns retired;
  EXPECT_EQ(turns(always({16, 13, 10}), &retired), (Turns{0, 1, 2, 0, 1, 2, 1, 2}));
  EXPECT_EQ(retired, (Turns{0, 1}));
  // Two remain to the end.
  EXPECT_EQ(turns(always({10, 11, 40}), &retired), (Turns{0, 1, 2, 0, 1, 2, 0, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(retired, (Turns{2, 1}));
}

TEST(AutoCodec, OneSlowStepThrowsNobodyOut) {
  const Times of = [](int, int step) {
    Milliseconds ms{30, 28, 26};
    if (step < 3 || step == 11) ms = {900, 900, 27};  // the first steps, and an evaluation
    return ms;
  };
  expect_all(remarks(2, of), "codec: qsgd(bits=4) 26.00 ms a step, against none 30.00, f16 28.00");
}

TEST(AutoCodec, RanksDecideTogetherByMediansWithoutTheFirstRound) {
  // By its own times, rank 0 would choose none and rank 1 qsgd.
  expect_all(remarks(2,
                     [](int rank, int) {
                       return rank == 0 ? Milliseconds{20, 24, 21} : Milliseconds{30, 24, 21};
                     }),
             "codec: qsgd(bits=4) 21.00 ms a step, against none 25.00, f16 24.00");
  expect_all(remarks(2,
                     [](int, int step) {
                       return step < 3 ? Milliseconds{1, 900, 900} : Milliseconds{30, 20, 10};
                     }),
             "codec: none");  // its quickest step counts for staying, but not for the choice
}

TEST(AutoCodec, OneRankSendsNothingAndMeasuresNothing) { EXPECT_EQ(remarks(1, always({30, 20, 10}))[0], ""); }

// The parts of `auto` with a memory.
AggregatorParts parts_of(const Communicator& communicator, std::string_view memory) {
  AggregatorParts parts;
  parts.buckets = sample_buckets();
  if (!memory.empty()) parts.memory_spec = memory_table().choose(memory);
  parts.memory = make_memory(parts.memory_spec, {parts.buckets, communicator.size()});
  parts.codec = make_codec({});
  parts.rank = communicator.rank();
  parts.ranks = communicator.size();
  return parts;
}

std::vector<std::string> names(std::string_view quality) {
  std::vector<std::string> found;
  for (const Candidate& candidate : candidates()) {
    if (candidate.tried && candidate.quality <= quality_of(quality)) found.emplace_back(candidate.codec);
  }
  return found;
}

TEST(AutoCodec, SendsWithEachInTurns) {
  const auto expressions = names("high");
  EXPECT_EQ(expressions.front(), "none");
  run_threads(2, 20s, [&](Communicator& communicator) {
    const auto aggregator = make_auto_codec_with({}, parts_of(communicator, ""), [] { return 0.0; });
    for (std::size_t step = 0; step < expressions.size(); ++step) {
      const int number = static_cast<int>(step);
      auto values = sample_gradient(sample_layout(), communicator.rank(), number);
      auto same = values;
      average_all(*aggregator, sample_buckets(), values, number, communicator);
      const auto alone = make_aggregator(read_recipe(expressions[step]), sample_buckets(), communicator);
      average_all(*alone, sample_buckets(), same, number, communicator);
      EXPECT_EQ(values, same) << expressions[step];
    }
  });
}

// The state is saved in the middle of the trial, and after the choice.
TEST(AutoCodec, GoesOnWhereItWas) {
  const auto expressions = names("medium");
  const AutoCodecOptions options{.quality = "medium"};
  const int count = static_cast<int>(expressions.size());
  const int trials_at_most = static_cast<int>(AutoCodec::rounds) * count + 1;
  // The last candidate is quickest, the first leaves early.
  const auto seconds = [&](int step) { return step % count == 0 ? 3.0 : step % count == count - 1 ? 0.9 : 1.0; };
  for (const int saved : {count + 2, 2 * count + 1, static_cast<int>(AutoCodec::rounds) * count + 3}) {
    run_threads(2, 20s, [&](Communicator& communicator) {
      double now = 0, later = 77;  // the clocks of two processes
      const auto whole = make_auto_codec_with(options, parts_of(communicator, "ef"), [&] { return now; });
      const auto resumed = make_auto_codec_with(options, parts_of(communicator, "ef"), [&] { return later; });
      const auto take = [&](AutoCodec& aggregator, double& clock, int step) {
        auto values = sample_gradient(sample_layout(), communicator.rank(), step);
        average_all(aggregator, sample_buckets(), values, step, communicator);
        clock += seconds(step);
        return values;
      };
      for (int step = 0; step < saved; ++step) take(*whole, now, step);
      test::restore(*resumed, state_of(*whole));
      EXPECT_EQ(state_of(*resumed), state_of(*whole));
      EXPECT_EQ(resumed->remark(), whole->remark());
      // A trial whose end the restart hid is repeated; a choice stays.
      const bool chosen = !whole->remark().empty();
      EXPECT_EQ(chosen, saved > 2 * count + 1);
      if (chosen) {
        EXPECT_EQ(take(*resumed, later, saved), take(*whole, now, saved)) << "the memory is there, too";
      }
      for (int step = saved + 1; step < saved + trials_at_most; ++step) take(*resumed, later, step);
      EXPECT_EQ(resumed->remark().find("codec: "), 0U);
      test::State bad = state_of(*resumed);
      bad.numbers.at("auto_codec/choice") = expressions.size() + 1;
      EXPECT_THROW(test::restore(*resumed, bad), FileError);
    });
  }
}

// Whatever a candidate, or the owner of its chunks, held back is sent by those that follow: nothing is lost when
// candidates leave, nor when another phase takes over.
TEST(AutoCodec, NothingIsLostBetweenCandidates) {
  const Layout layout = sample_layout();
  const int ranks = 3;
  for (const char* aggregator : {"auto", "gather", "scatter_reduce"}) {
    for (const std::uint64_t end : {std::uint64_t{6}, std::uint64_t{50}}) {
      const auto phases = read_phases({{0, "auto(quality=medium)", aggregator}, {end, "ef | f32", "all_reduce"}});
      const bool casts = std::string_view(aggregator) == "auto";
      run_threads(ranks, 20s, [&](Communicator& communicator) {
        ScheduledAggregator scheduled(phases, sample_buckets(), communicator.rank(), ranks, nullptr);
        std::vector<double> balance(layout.size());  // gradients minus means
        double largest = 0;
        for (int step = 0; step <= static_cast<int>(end); ++step) {
          scheduled.enter(static_cast<std::uint64_t>(step));
          for (int rank = 0; rank < ranks; ++rank) {
            const auto gradient = sample_gradient(layout, rank, step);
            for (std::size_t i = 0; i < balance.size(); ++i) balance[i] += gradient[i] / static_cast<double>(ranks);
          }
          auto values = sample_gradient(layout, communicator.rank(), step);
          average_all(scheduled.current(), sample_buckets(), values, step, communicator);
          for (std::size_t i = 0; i < balance.size(); ++i) balance[i] -= values[i];
          for (const double value : balance) largest = std::max(largest, std::abs(value));
        }
        EXPECT_GT(largest, 0.3) << "something was held back";
        // The sums of f16 are rounded, and nobody remembers that.
        for (const double value : balance) ASSERT_NEAR(value, 0, casts ? 0.03 : 2e-4) << aggregator << " " << end;
      });
    }
  }
}

TEST(AutoCodec, IsAWholeMethod) {
  EXPECT_EQ(read_recipe("auto").text(), "auto(quality=high)");
  EXPECT_EQ(read_recipe("auto(medium)").text(), "ef | auto(quality=medium)");
  EXPECT_EQ(read_recipe(read_recipe("auto(medium)").text()).text(), "ef | auto(quality=medium)");
  EXPECT_EQ(read_recipe("auto(medium)", "gather").text(), "ef | auto(quality=medium)");
  run_threads(2, 20s, [&](Communicator& communicator) {
    const auto make = [&](const char* name, const char* method) {
      return make_aggregator(read_recipe(method, name), sample_buckets(), communicator);
    };
    EXPECT_EQ(make("auto", "auto")->name(), "all_reduce");
    EXPECT_EQ(make("gather", "auto")->name(), "gather");
    EXPECT_EQ(make("gather", "auto(medium)")->name(), "gather");
    for (const char* bad : {"ef | auto", "momentum | auto(medium)", "auto | f16", "auto(3)", "auto(low)"}) {
      EXPECT_NE(message_of([&] { make("auto", bad); }), "") << bad;
    }
    const auto text = message_of([&] { make("all_reduce", "auto"); });
    EXPECT_NE(text.find("cannot be summed"), std::string::npos) << text;
    EXPECT_NE(message_of([&] { make("hierarchical(group=1)", "auto(medium)"); }).find("separate memories"),
              std::string::npos);
  });
}

}  // namespace
}  // namespace sotto
