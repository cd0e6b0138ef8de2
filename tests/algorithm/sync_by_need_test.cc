// sync(priority=need): the bits of sync, in another order.
#include "sotto/algorithm/sync.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <vector>

#include "sotto/comm/emulated/threads.h"
#include "sotto/core/error.h"
#include "tests/algorithm/perceptron.h"
#include "tests/algorithm/quadratic.h"
#include "tests/algorithm/witness.h"
#include "tests/support/phases.h"
#include "tests/support/specs.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::Overheard;
using test::Perceptron;
using test::Quadratic;
using test::Told;

std::vector<std::vector<float>> train(const char* expression, int ranks, const AlgorithmOptions& options,
                                      const std::string& optimiser = "sgd(momentum=0.9)") {
  std::vector<std::vector<float>> ends(static_cast<std::size_t>(ranks));
  run_threads(ranks, 60s, [&](Communicator& communicator) {
    Perceptron worker(communicator.rank(), optimiser);
    const auto sync = make_algorithm(test::algorithm(expression), options, worker.buckets(), communicator);
    for (std::uint64_t step = 0; step < 8; ++step) {
      sync->step(worker, {step, 0.05 / static_cast<double>(step + 1), false});
      if (step == 4) sync->drain();
    }
    sync->drain();
    ends[static_cast<std::size_t>(communicator.rank())].assign(worker.parameters().begin(), worker.parameters().end());
  });
  return ends;
}

TEST(SyncByNeed, HasTheBitsOfSync) {
  for (const int ranks : {1, 2, 3, 4, 7, 8}) {
    for (const char* codec : {"none", "qsgd(bits=4)", "ef | topk(0.1)", "power(2)", "ef | sign"}) {
      AlgorithmOptions options;
      options.phases = test::read_phases(codec);
      EXPECT_EQ(train("sync(priority=need)", ranks, options), train("sync", ranks, options)) << codec << ", " << ranks;
    }
  }
}

TEST(SyncByNeed, HasThemWithEveryAggregator) {
  for (const auto& [codec, aggregator] : {std::pair{"f16", "all_reduce"},
                                          {"qsgd(4)", "gather"},
                                          {"qsgd(4)", "scatter_reduce"},
                                          {"ef | topk(0.05)", "sparse"}}) {
    AlgorithmOptions options;
    options.phases = test::read_phases(codec, aggregator);
    EXPECT_EQ(train("sync(priority=need)", 4, options), train("sync", 4, options)) << codec << ", " << aggregator;
  }
}

TEST(SyncByNeed, HasThemWithOptimisersThatOfferSomethingElse) {
  for (const char* optimiser : {"adam", "onebit-adam(warmup=3)", "signum", "lars(trust=1)", "lamb"}) {
    EXPECT_EQ(train("sync(priority=need)", 3, {}, optimiser), train("sync", 3, {}, optimiser)) << optimiser;
  }
}

TEST(SyncByNeed, HasThemWherePhasesOfACodecChange) {
  AlgorithmOptions options;
  options.phases = test::read_phases({{0, "none"}, {3, "ef | topk(0.2)"}, {6, "ef | topk(0.1)"}});
  EXPECT_EQ(train("sync(priority=need)", 3, options), train("sync", 3, options));
}

TEST(SyncByNeed, HasThemWithoutOverlap) {
  AlgorithmOptions with, without;
  without.overlap = false;
  EXPECT_EQ(train("sync(priority=need)", 3, without), train("sync", 3, with));
}

// The first exchange of a step waits until all buckets are ready. The last one waits until the next forward has the
// bucket that it needs first; forward would wait for ever if it needed all buckets.
TEST(SyncByNeed, ExchangesFirstWhatIsNeededFirst) {
  run_threads(2, 20s, [&](Communicator& communicator) {
    constexpr std::size_t buckets = 3;
    std::atomic<bool> all_ready = false, first_needed = false;
    std::uint64_t step = 0;
    Told worker(communicator.rank(), {.needed =
                                          [&](std::size_t bucket) {
                                            if (step != 1 || bucket != buckets - 1) return;
                                            first_needed = true;
                                            first_needed.notify_all();
                                          },
                                      .ready =
                                          [&](std::size_t bucket) {
                                            if (step != 0 || bucket != buckets - 1) return;
                                            all_ready = true;
                                            all_ready.notify_all();
                                          }});
    ASSERT_EQ(worker.buckets().size(), buckets);
    std::size_t heard = 0;
    Overheard overheard(communicator, [&](std::size_t bytes) {
      if (bytes == sizeof(float)) return;  // the float by which ranks agree to stop
      if (++heard == 1) all_ready.wait(false);
      if (heard == buckets) first_needed.wait(false);
    });
    const auto sync = make_algorithm(test::algorithm("sync(priority=need)"), {}, worker.buckets(), overheard);
    sync->step(worker, {step, 0.1, false});
    sync->step(worker, {++step, 0.1, false});
    sync->drain();
    EXPECT_EQ(heard, 2 * buckets);
  });
}

TEST(SyncByNeed, SaysWhatItTakes) {
  run_threads(1, 20s, [&](Communicator& communicator) {
    Quadratic worker(0);
    EXPECT_THROW(make_algorithm(test::algorithm("sync(priority=late)"), {}, worker.buckets(), communicator),
                 ConfigError);
  });
}

}  // namespace
}  // namespace sotto
