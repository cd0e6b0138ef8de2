#include "sotto/aggregate/presets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "sotto/aggregate/aggregator.h"
#include "sotto/comm/emulated/threads.h"
#include "sotto/core/error.h"
#include "tests/algorithm/perceptron.h"
#include "tests/support/phases.h"
#include "tests/support/specs.h"
#include "tests/support/store.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::Perceptron;

constexpr int ranks = 2;
constexpr std::uint64_t steps = 60;
constexpr std::uint64_t resumed = 33;  // a step in the middle

class Presets : public testing::TestWithParam<Preset> {};

// The optimiser of a preset, with fewer warm-up steps, since trainings are short here.
std::string optimiser_of(const Preset& preset) {
  if (preset.optimiser == "auto") {
    return momentum_of(read_recipe(preset.name)).empty() ? "sgd" : "sgd(momentum=0)";
  }
  return preset.optimiser == "onebit-adam" ? "onebit-adam(warmup=20)" : std::string(preset.optimiser);
}
double rate_of(const Preset& preset, const std::string& optimiser) {
  if (preset.name == "memsgd-randomk") return 0.2;  // without momentum
  const double rate = test::optimiser(optimiser).entry->default_lr;
  return rate == 0 ? 0.02 : 3 * rate;
}

TEST_P(Presets, TrainsAndResumesToTheSameBits) {
  const Preset& preset = GetParam();
  const std::string optimiser = optimiser_of(preset);
  const double lr = rate_of(preset, optimiser);
  std::vector<std::vector<float>> ends(ranks);
  std::vector<std::vector<double>> losses(ranks);
  run_threads(ranks, 60s, [&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    Perceptron worker(communicator.rank(), optimiser);
    AlgorithmOptions options;
    options.phases = start_after(worker.optimiser().dense_steps(), test::read_phases(std::string(preset.name)));
    const auto sync = make_algorithm(test::algorithm("sync"), options, worker.buckets(), communicator);
    Perceptron other(communicator.rank(), optimiser);
    const auto clone = communicator.clone();
    const auto again = make_algorithm(test::algorithm("sync"), options, other.buckets(), *clone);
    for (std::uint64_t step = 0; step < steps; ++step) {
      if (step == resumed) {
        std::ranges::copy(worker.parameters(), other.parameters().begin());
        again->enter(step);
        test::hand_over(worker.optimiser(), other.optimiser());
        test::hand_over(*sync, *again);
      }
      losses[rank].push_back(sync->step(worker, {step, lr, false}).loss);
      if (step < resumed) continue;
      again->step(other, {step, lr, false});
      ASSERT_EQ(0, std::memcmp(other.parameters().data(), worker.parameters().data(), worker.parameters().size_bytes()))
          << "resumed at " << resumed << ", other bits after step " << step;
    }
    ends[rank].assign(worker.parameters().begin(), worker.parameters().end());
    auto cleared = ends[rank];
    worker.layout().clear_padding(cleared);
    EXPECT_EQ(cleared, ends[rank]) << "padding";
  });
  EXPECT_EQ(0, std::memcmp(ends[0].data(), ends[1].data(), ends[0].size() * sizeof(float))) << "replicas";
  for (const float value : ends[0]) ASSERT_TRUE(std::isfinite(value));
  const auto mean = [&](std::size_t from, std::size_t to) {
    double sum = 0;
    for (std::size_t i = from; i < to; ++i) sum += 0.5 * (losses[0][i] + losses[1][i]);
    return sum / static_cast<double>(to - from);
  };
  const double first = mean(0, 5), last = mean(steps - 10, steps);
  // FetchSGD moves 3 in a thousand elements a step, so sixty steps bring it less far.
  EXPECT_LT(last, (preset.name == "fetchsgd" ? 0.95 : 0.6) * first)
      << "loss " << first << " at first, " << last << " at last";
  RecordProperty("first_loss", std::to_string(first));
  RecordProperty("last_loss", std::to_string(last));
}

TEST_P(Presets, HasAnOptimiserThatThereIs) {
  const Preset& preset = GetParam();
  EXPECT_EQ(read_recipe(preset.name).optimiser, preset.optimiser);
  EXPECT_NO_THROW(make_optimiser(test::optimiser(optimiser_of(preset)), test::flat(16))) << preset.optimiser;
  if (preset.name != "none") {
    EXPECT_FALSE(preset.summary.empty() || preset.pitfalls.empty()) << "says nothing of its pitfalls";
  }
}

// Buckets may overtake each other, and forward may begin before the last of them have arrived. The bits stay the same.
TEST_P(Presets, HaveTheSameBitsInTheOrderOfNeed) {
  const std::string optimiser = optimiser_of(GetParam());
  const auto train = [&](const char* expression) {
    std::vector<std::vector<float>> ends(ranks);
    run_threads(ranks, 60s, [&](Communicator& communicator) {
      Perceptron worker(communicator.rank(), optimiser);
      AlgorithmOptions options;
      options.phases = start_after(worker.optimiser().dense_steps(), test::read_phases(std::string(GetParam().name)));
      const auto sync = make_algorithm(test::algorithm(expression), options, worker.buckets(), communicator);
      for (std::uint64_t step = 0; step < 25; ++step) {
        sync->step(worker, {step, rate_of(GetParam(), optimiser), false});
      }
      sync->drain();
      ends[static_cast<std::size_t>(communicator.rank())].assign(worker.parameters().begin(),
                                                                 worker.parameters().end());
    });
    return ends;
  };
  EXPECT_EQ(train("sync(priority=need)"), train("sync"));
}

// The mean loss of the last ten of 150 steps with momentum, at learning rate `lr`.
double end_of(const std::string& codec, double lr) {
  std::vector<double> sums(ranks);
  run_threads(ranks, 60s, [&](Communicator& communicator) {
    Perceptron worker(communicator.rank(), "sgd(momentum=0.9)");
    AlgorithmOptions options;
    options.phases = test::read_phases(codec);
    const auto sync = make_algorithm(test::algorithm("sync"), options, worker.buckets(), communicator);
    for (std::uint64_t step = 0; step < 150; ++step) {
      const double loss = sync->step(worker, {step, lr, false}).loss;
      if (step >= 140) sums[static_cast<std::size_t>(communicator.rank())] += loss / 10;
    }
  });
  return (sums[0] + sums[1]) / ranks;
}

// With error feedback before it, which the paper does not have, the loss is more than twice as high.
TEST(SketchMl, TrainsAtAHighRateAsWithoutACodec) {
  EXPECT_LT(end_of("sketchml", 0.1), 1.1 * end_of("none", 0.1));
  EXPECT_LT(end_of("sketchml", 0.02), 1.1 * end_of("none", 0.02));
}

INSTANTIATE_TEST_SUITE_P(Table, Presets, testing::ValuesIn(preset_table().begin(), preset_table().end()),
                         [](const auto& preset) {
                           std::string name(preset.param.name);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace sotto
