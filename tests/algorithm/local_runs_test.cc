// Local steps in a run: equal replicas, bytes, resumes and stops.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/emulated/threads.h"
#include "sotto/core/state.h"
#include "tests/algorithm/perceptron.h"
#include "tests/algorithm/quadratic.h"
#include "tests/support/phases.h"
#include "tests/support/specs.h"
#include "tests/support/store.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::Perceptron;
using test::Quadratic;

constexpr double step_size = 0.02;
const char* const codecs[] = {"none", "qsgd(bits=4)", "ef | topk(0.1)"};

class LocalRuns : public testing::TestWithParam<int> {};

TEST_P(LocalRuns, LearnAndAgreeToTheLastBitBehindEachExchange) {
  const auto ranks = static_cast<std::size_t>(GetParam());
  for (const char* algorithm : {"local(h=4)", "slowmo(h=4, momentum=0.5, buffers=average)", "diloco(h=4)",
                                "diloco(h=4, shards=2)", "diloco(h=4, overlap=2, alpha=0)"}) {
    for (const char* codec : codecs) {
      std::vector<std::map<std::pair<std::size_t, std::size_t>, std::vector<float>>> found(
          ranks);  // by bucket and step
      std::vector<double> first(ranks), last(ranks);
      run_threads(GetParam(), 60s, [&](Communicator& communicator) {
        const auto rank = static_cast<std::size_t>(communicator.rank());
        Perceptron worker(communicator.rank(), "sgd");
        AlgorithmOptions options;
        options.phases = test::read_phases(codec);
        const auto made = make_algorithm(test::algorithm(algorithm), options, worker.buckets(), communicator);
        const std::size_t count = worker.buckets().size();
        for (std::size_t step = 0; step < 48; ++step) {
          const double loss = made->step(worker, {step, step_size, false}).loss;
          if (step < 4) first[rank] += loss;
          if (step >= 44) last[rank] += loss;
          for (std::size_t b = 0; b < count; ++b) {
            const bool two = std::string_view(algorithm).find("shards") != std::string_view::npos;
            const bool late = std::string_view(algorithm).find("overlap") != std::string_view::npos;
            const std::size_t phase = (step + (late ? 2 : 0)) % 4;
            const bool here = two && (count - 1 - b) % 2 == 1 ? phase == 1 : phase == 3;
            if (!here || (late && step < 4)) continue;
            const auto x =
                worker.parameters().subspan(worker.buckets()[b].range.begin, worker.buckets()[b].range.size());
            found[rank][{b, step}].assign(x.begin(), x.end());
          }
        }
      });
      for (const auto& of_rank : found) EXPECT_EQ(of_rank, found[0]) << algorithm << ", " << codec;
      EXPECT_GE(found[0].size(), 22U);
      for (std::size_t r = 0; r < ranks; ++r) EXPECT_LT(last[r], 0.8 * first[r]) << algorithm << ", " << codec;
    }
  }
}

TEST_P(LocalRuns, StopTogetherBehindTheNextExchange) {
  for (const auto& [algorithm, last] : {std::pair{"local(h=6)", 11},
                                        {"local(h=6, after=9)", 7},
                                        {"slowmo(h=6)", 11},
                                        {"diloco(h=6, shards=3)", 7},
                                        {"diloco(h=6, overlap=4)", 15}}) {
    std::vector<int> ended(static_cast<std::size_t>(GetParam()));
    run_threads(GetParam(), 20s, [&](Communicator& communicator) {
      Quadratic worker(communicator.rank());
      const auto made = make_algorithm(test::algorithm(algorithm), {}, worker.buckets(), communicator);
      int step = 0;
      StateCopy checkpoint;  // which is made after each step, and changes nothing
      const auto go = [&] {
        made->drain();
        made->visit_state(checkpoint);
        return !made->step(worker, {static_cast<std::uint64_t>(step), 0.01, step == 7 && communicator.rank() == 0})
                    .stop;
      };
      while (go()) ++step;
      ended[static_cast<std::size_t>(communicator.rank())] = step;
    });
    for (const int step : ended) EXPECT_EQ(step, last) << algorithm;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, LocalRuns, testing::Values(1, 2, 3, 4, 7));

// An exchange sends the bytes of the aggregator, and those of a sum of one float that says whether any rank was asked
// to stop, as in sync.
TEST(LocalBytes, AreThoseOfTheAggregatorInAStepOfH) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const auto& [codec, aggregator] : {std::pair{"none", "all_reduce"},
                                            {"f16", "auto"},
                                            {"qsgd(bits=4)", "gather"},
                                            {"qsgd(bits=2)", "scatter_reduce"},
                                            {"power(1)", "auto"}}) {
      run_threads(ranks, 60s, [&](Communicator& communicator) {
        AlgorithmOptions options;
        options.phases = test::read_phases(codec, aggregator);
        const auto sent_by = [&](const char* algorithm, std::vector<std::uint64_t> steps) {
          Quadratic worker(communicator.rank(), "sgd");
          const auto made = make_algorithm(test::algorithm(algorithm), options, worker.buckets(), communicator);
          std::vector<std::uint64_t> sent;
          for (const std::uint64_t step : steps) {
            const std::uint64_t before = communicator.traffic().bytes_sent;
            made->step(worker, {step, step_size, false});
            made->drain();
            sent.push_back(communicator.traffic().bytes_sent - before);
            EXPECT_TRUE(made->exchanges(step) || sent.back() == 0);
          }
          return sent;
        };
        const std::uint64_t once = sent_by("sync", {2, 5})[1];
        const std::vector<std::uint64_t> six = {0, 1, 2, 3, 4, 5};
        EXPECT_EQ(sent_by("local(h=3)", six), (std::vector<std::uint64_t>{0, 0, once, 0, 0, once})) << codec << ranks;
        EXPECT_EQ(sent_by("slowmo(h=3)", six), (std::vector<std::uint64_t>{0, 0, once, 0, 0, once})) << codec << ranks;
        EXPECT_EQ(sent_by("diloco(h=3, overlap=1)", six), (std::vector<std::uint64_t>{0, 0, once, 0, 0, once}));
        const auto parts = sent_by("diloco(h=3, shards=2)", six);
        EXPECT_EQ(parts[0] + parts[1] + parts[2], once + communicator.all_reduce_bytes(1, DType::f32))
            << codec << ranks;
        EXPECT_EQ(parts[1], 0U);
        if (std::string_view(codec) != "none") return;
        Quadratic worker(0, "sgd");
        std::uint64_t formula = communicator.all_reduce_bytes(1, DType::f32);
        for (const BucketPlan& plan : worker.buckets()) {
          formula += communicator.all_reduce_bytes(plan.range.size(), DType::f32);
        }
        EXPECT_EQ(once, formula);
        EXPECT_EQ(sent_by("slowmo(h=3, buffers=average)", {0, 1, 2})[2],
                  formula + communicator.all_reduce_bytes(worker.parameters().size(), DType::f32));
      });
    }
  }
}

TEST(LocalResume, IsToTheSameBitsBehindEachStep) {
  for (const char* algorithm :
       {"local(h=4, after=9)", "slowmo(h=4, buffers=reset)", "slowmo(h=4)", "diloco(h=4, shards=2, overlap=3)"}) {
    for (const char* codec : codecs) {
      run_threads(3, 60s, [&](Communicator& communicator) {
        AlgorithmOptions options;
        options.phases = test::read_phases(codec);
        constexpr std::uint64_t first = 7, last = 14, end = 20;
        const auto run = [&](std::map<std::uint64_t, test::Store>* stores) {
          std::vector<std::vector<float>> path;
          Perceptron worker(communicator.rank(), "sgd");
          const auto made = make_algorithm(test::algorithm(algorithm), options, worker.buckets(), communicator);
          for (std::uint64_t step = 0; step < end; ++step) {
            if (stores != nullptr && step >= first && step < last) {
              made->drain();
              made->enter(step);
              test::Store& store = (*stores)[step];
              made->visit_state(store);
              worker.optimiser().visit_state(store);
            }
            made->step(worker, {step, step_size, false});
            path.emplace_back(worker.parameters().begin(), worker.parameters().end());
          }
          made->drain();
          return path;
        };
        std::map<std::uint64_t, test::Store> stores;
        const auto path = run(&stores);
        ASSERT_EQ(path, run(nullptr)) << "looking changes nothing";
        for (auto& [from, store] : stores) {
          Perceptron worker(communicator.rank(), "sgd");
          const auto made = make_algorithm(test::algorithm(algorithm), options, worker.buckets(), communicator);
          std::ranges::copy(path[from - 1], worker.parameters().begin());
          made->enter(from);
          store.reading = true;
          made->visit_state(store);
          worker.optimiser().visit_state(store);
          for (std::uint64_t step = from; step < end; ++step) {
            made->step(worker, {step, step_size, false});
            ASSERT_TRUE(std::ranges::equal(worker.parameters(), path[step]))
                << algorithm << codec << from << "," << step;
          }
          made->drain();
        }
      });
    }
  }
}

// If an exchange is still on its way, average_models() applies it, once only.
TEST(LocalAgree, EndsWithTheMeanOfAllModels) {
  for (const char* algorithm : {"local(h=5)", "diloco(h=5, overlap=3)"}) {
    std::vector<std::vector<float>> before(3), after(3);
    run_threads(3, 20s, [&](Communicator& communicator) {
      const auto rank = static_cast<std::size_t>(communicator.rank());
      Quadratic worker(communicator.rank());
      const auto made = make_algorithm(test::algorithm(algorithm), {}, worker.buckets(), communicator);
      for (std::uint64_t step = 0; step < 7; ++step) made->step(worker, {step, 0.1, false});
      before[rank].assign(worker.parameters().begin(), worker.parameters().end());
      made->average_models(worker);
      after[rank].assign(worker.parameters().begin(), worker.parameters().end());
      test::Store store;
      made->visit_state(store);
      if (rank == 0 && store.numbers.contains("diloco/due/0")) {
        EXPECT_EQ(store.numbers["diloco/due/0"], 0U);
      }
    });
    EXPECT_EQ(after[0], after[1]);
    EXPECT_EQ(after[0], after[2]);
    const float mean = (before[0][3] + before[1][3] + before[2][3]) / 3;
    EXPECT_NE(before[0], before[1]);
    if (std::string_view(algorithm) == "local(h=5)") {
      EXPECT_NEAR(after[0][3], mean, 1e-6);
    } else {
      EXPECT_GT(std::abs(after[0][3] - mean), 0.01) << "what was on its way is in it";
    }
  }
}

// Rank 1 is lost after so many steps, and another one comes in its place.
TEST(LocalGroups, GoOnFromWhereThoseThatAreLeftAreOnAverage) {
  for (const char* algorithm : {"local(h=4)", "slowmo(h=4)", "diloco(h=4, shards=2)", "diloco(h=4, overlap=2)"}) {
    for (const std::uint64_t steps : {6U, 8U}) {
      std::vector<test::Store> stores(3);
      std::vector<std::vector<float>> before(3), after(3);
      run_threads(3, 20s, [&](Communicator& communicator) {
        const auto rank = static_cast<std::size_t>(communicator.rank());
        Perceptron worker(communicator.rank(), "sgd");
        const auto made = make_algorithm(test::algorithm(algorithm), {}, worker.buckets(), communicator);
        for (std::uint64_t step = 0; step < steps; ++step) made->step(worker, {step, step_size, false});
        made->drain();
        made->visit_state(stores[rank]);
        stores[rank].reading = true;
        before[rank].assign(worker.parameters().begin(), worker.parameters().end());
      });
      run_threads(3, 20s, [&](Communicator& communicator) {
        const auto rank = static_cast<std::size_t>(communicator.rank());
        const bool is_new = rank == 1;
        Perceptron worker(communicator.rank(), "sgd");
        std::ranges::copy(before[is_new ? 0 : rank], worker.parameters().begin());
        const auto made = make_algorithm(test::algorithm(algorithm), {}, worker.buckets(), communicator);
        made->enter(steps);
        test::Store store = stores[is_new ? 0 : rank];
        made->elastic()->visit_shared(store);
        const FormerRank self{static_cast<int>(rank), 3, &store};
        if (!is_new) made->elastic()->take_over({&self, 1});
        made->elastic()->sync_after_change(worker, is_new);
        after[rank].assign(worker.parameters().begin(), worker.parameters().end());
      });
      SCOPED_TRACE(testing::Message() << algorithm << " after " << steps << " steps");
      EXPECT_EQ(after[0], after[1]);
      EXPECT_EQ(after[0], after[2]);
      if (before[0] == before[2]) {
        EXPECT_EQ(after[0], before[0]) << "to the last bit";
      }
      EXPECT_EQ(before[0] == before[2], steps == 8 && std::string_view(algorithm).find(", ") == std::string_view::npos);
      for (std::size_t i = 0; i < after[0].size(); ++i) {
        ASSERT_NEAR(after[0][i], (before[0][i] + before[2][i]) / 2, 1e-6) << i;
      }
    }
  }
}

TEST(LocalReports, TellHowLongBucketsQueueForTheirExchange) {
  run_threads(2, 20s, [](Communicator& communicator) {
    Quadratic worker(communicator.rank());
    const auto made = make_algorithm(test::algorithm("local(h=2)"), {}, worker.buckets(), communicator);
    EXPECT_EQ(made->step(worker, {0, 0.1, false}).queue, 0);
    const StepReport report = made->step(worker, {1, 0.1, false});
    EXPECT_GT(report.queue, 0);
    EXPECT_LT(report.queue, report.seconds);
  });
}

}  // namespace
}  // namespace sotto
