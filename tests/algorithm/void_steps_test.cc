// Steps whose gradient overflows in float16.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "sotto/comm/emulated/threads.h"
#include "sotto/optim/loss_scale.h"
#include "tests/algorithm/quadratic.h"
#include "tests/support/phases.h"
#include "tests/support/specs.h"
#include "tests/support/store.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::Quadratic;

// A worker whose gradient overflows in some steps.
class Overflowing final : public Worker {
 public:
  Overflowing(int rank, const char* optimiser, std::set<std::uint64_t> bad)
      : inner_(rank, optimiser),
        bad_(std::move(bad)),
        scale_(LossScaleOptions{}),
        optimiser_(make_optimiser(test::optimiser(optimiser), test::flat(inner_.parameters().size())), scale_) {}
  std::span<float> parameters() override { return inner_.parameters(); }
  std::span<float> gradient() override { return inner_.gradient(); }
  std::span<const BucketPlan> buckets() const override { return inner_.buckets(); }
  Optimiser& optimiser() override { return optimiser_; }
  double compute_gradient(std::uint64_t step, const BucketCalls& calls) override {
    const double loss = inner_.compute_gradient(step, {.needed = calls.needed});
    scale_.end_step(calls.is_void(bad_.contains(step)));
    if (scale_.is_void()) std::ranges::fill(gradient(), 0.0F);
    for (std::size_t b = 0; b < buckets().size(); ++b) calls.ready(b);
    return loss;
  }
  const LossScale& scale() const { return scale_; }

 private:
  Quadratic inner_;
  std::set<std::uint64_t> bad_;
  LossScale scale_;
  Skipping optimiser_;
};

using Bad = std::vector<std::set<std::uint64_t>>;  // for each rank, the steps that overflow there

// The model of each rank after the steps, followed by the state of the algorithm.
std::vector<std::vector<float>> train(const char* expression, const char* codec, const Bad& bad, std::uint64_t steps,
                                      bool overlap) {
  std::vector<std::vector<float>> ends(bad.size());
  run_threads(static_cast<int>(bad.size()), 20s, [&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    Overflowing worker(communicator.rank(), "adam", bad[rank]);
    AlgorithmOptions options;
    options.phases = test::read_phases(codec);
    options.overlap = overlap;
    const auto sync = make_algorithm(test::algorithm(expression), options, worker.buckets(), communicator);
    for (std::uint64_t step = 0; step < steps; ++step) {
      const StepReport report = sync->step(worker, {step, 0.1, step == 3});
      EXPECT_EQ(report.stop, step == 3) << "also in a void step";
    }
    sync->drain();
    ends[rank].assign(worker.parameters().begin(), worker.parameters().end());
    EXPECT_EQ(worker.scale().skipped() + worker.scale().taken(), steps);
    test::Store store;
    sync->visit_state(store);
    for (const auto& [name, values] : store.floats) ends[rank].insert(ends[rank].end(), values.begin(), values.end());
  });
  return ends;
}

TEST(VoidSteps, ChangeNothingOnAnyRankInSync) {
  for (const char* expression : {"sync", "sync(priority=need)"}) {
    for (const char* codec : {"none", "ef | topk(0.1)"}) {
      for (const bool overlap : {true, false}) {
        const auto with = train(expression, codec, {{4}, {0, 4}, {3}}, 9, overlap);
        const auto without = train(expression, codec, {{}, {}, {}}, 6, overlap);
        for (std::size_t rank = 0; rank < with.size(); ++rank) {
          ASSERT_EQ(with[rank].size(), without[rank].size());
          EXPECT_EQ(0, std::memcmp(with[rank].data(), without[rank].data(), with[rank].size() * sizeof(float)))
              << expression << ", " << codec << ", rank " << rank;
        }
      }
    }
  }
}

// Rank r moves by 0.1 (r + 1) in its first step, unless that is void. The ranks end at the mean of their models.
double mean_after_one_step(const char* expression, int ranks, int node_size) {
  std::vector<double> ends(static_cast<std::size_t>(ranks));
  run_threads(ranks, 20s, [&](Communicator& communicator) {
    Overflowing worker(communicator.rank(), "sgd(momentum=0)",
                       communicator.rank() == 1 ? std::set<std::uint64_t>{0} : std::set<std::uint64_t>{});
    AlgorithmOptions options;
    options.topology = test::topology(algorithm_table().find(test::algorithm(expression).entry->name)->graph.topology);
    options.node_size = node_size;
    const auto algorithm = make_algorithm(test::algorithm(expression), options, worker.buckets(), communicator);
    algorithm->step(worker, {0, 0.1, false, 1});
    algorithm->drain();
    algorithm->average_models(worker);
    ends[static_cast<std::size_t>(communicator.rank())] = worker.parameters()[0];
    EXPECT_EQ(worker.scale().skipped(), communicator.rank() / node_size == 1 / node_size ? 1U : 0U);
  });
  for (const double end : ends) EXPECT_NEAR(end, ends[0], 1e-6);
  return ends[0];
}

TEST(VoidSteps, AreARanksOwnWhereRanksStepAlone) {
  for (const char* expression :
       {"push_sum", "push_sum(overlap=true)", "d_psgd", "ad_psgd", "choco", "local(h=2)", "local(h=1)", "diloco"}) {
    EXPECT_NEAR(mean_after_one_step(expression, 4, 1), 0.1 * (1 + 3 + 4) / 4, 1e-6) << expression;
  }
}

TEST(VoidSteps, AreThoseOfAWholeNode) {
  for (const char* expression : {"push_sum", "d_psgd"}) {
    EXPECT_NEAR(mean_after_one_step(expression, 4, 2), 0.1 * (3.5 + 0) / 2, 1e-6) << expression;
  }
}

}  // namespace
}  // namespace sotto
