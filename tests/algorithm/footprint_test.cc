// The memory that training needs: how much, and that it does not grow.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/emulated/threads.h"
#include "sotto/core/random.h"
#include "sotto/optim/sgd.h"
#include "tests/algorithm/quadratic.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/phases.h"
#include "tests/support/specs.h"

namespace sotto::testing {
namespace {

using namespace std::chrono_literals;

Layout resnet18() {
  Layout layout;
  const auto convolution = [&](std::int64_t outputs, std::int64_t inputs, std::int64_t side) {
    layout.append("conv", {outputs, inputs, side, side});
    layout.append("scale", {outputs});
    layout.append("shift", {outputs});
  };
  convolution(64, 3, 3);
  std::int64_t inputs = 64;
  for (const std::int64_t outputs : {64, 128, 256, 512}) {
    convolution(outputs, inputs, 3);
    convolution(outputs, outputs, 3);
    if (outputs != inputs) convolution(outputs, inputs, 1);
    convolution(outputs, outputs, 3);
    convolution(outputs, outputs, 3);
    inputs = outputs;
  }
  layout.append("fc.weight", {10, 512});
  layout.append("fc.bias", {10});
  return layout;
}

class Noise final : public Worker {
 public:
  Noise() : layout_(resnet18()), buckets_(plan_buckets(layout_, 1 << 20)) {
    parameters_.resize(layout_.size());
    gradient_.resize(layout_.size());
    optimiser_ = make_sgd({0.9, false, 0}, layout_);
  }
  std::span<float> parameters() override { return parameters_; }
  std::span<float> gradient() override { return gradient_; }
  std::span<const BucketPlan> buckets() const override { return buckets_; }
  Optimiser& optimiser() override { return *optimiser_; }
  double compute_gradient(std::uint64_t step, const BucketCalls& calls) override {
    const ElementStream stream = element_stream(1, Purpose::test, 0, step, 0);
    for (const Segment& segment : layout_.segments()) {
      for (std::size_t i = segment.offset; i < segment.range().end; ++i) {
        gradient_[i] = stream.uniform(static_cast<std::uint32_t>(i)) - 0.5F;
      }
    }
    for (std::size_t b = 0; b < buckets_.size(); ++b) calls.ready(b);
    return 1;
  }

 private:
  Layout layout_;
  std::vector<BucketPlan> buckets_;
  std::vector<float> parameters_, gradient_;
  std::unique_ptr<Optimiser> optimiser_;
};

// The peak of one rank in a group of two.
std::size_t peak_bytes(const std::string& method) {
  const std::size_t before = allocated_bytes();
  run_threads(2, 120s, [&](Communicator& communicator) {
    Noise worker;
    const auto sync =
        make_algorithm(test::algorithm("sync"), {.phases = test::read_phases(method)}, worker.buckets(), communicator);
    for (std::uint64_t step = 0; step < 2; ++step) sync->step(worker, {step, 0.01, false});
  });
  return (peak_allocated_bytes() - before) / 2;
}

class Footprint : public ::testing::TestWithParam<const char*> {};

// The peak of a process never falls, so a method that needs much would hide the excess of a later one. Each method
// therefore runs in its own process.
// Besides the activations, training ResNet-18 needs some vectors as long as the parameters, two buckets, and at most a
// tenth more.
TEST_P(Footprint, IsThatOfTheVectorsAndTwoBuckets) {
  const std::string method = GetParam();
  const Layout layout = resnet18();
  EXPECT_EQ(layout.numel(), 11173962U);
  std::size_t largest = 0;
  for (const BucketPlan& bucket : plan_buckets(layout, 1 << 20)) largest = std::max(largest, bucket.layout.size());
  const bool remembers = method.starts_with("ef") || method.starts_with("power");
  const auto vectors =
      static_cast<double>((remembers ? 4 : 3) * layout.size());  // parameters, gradient, momentum, memory
  const double bound = 4 * (vectors + 2 * static_cast<double>(largest)) * 1.1;
  const auto found = static_cast<double>(peak_bytes(method));
  EXPECT_LE(found, bound) << method << ": " << found / 1e6 << " MB, " << bound / 1e6 << " MB are allowed";
  EXPECT_GE(found, 4 * vectors);
}

INSTANTIATE_TEST_SUITE_P(Methods, Footprint,
                         ::testing::Values("none", "f16", "qsgd(bits=4)", "ef | sampled_topk(0.01)", "ef | topk(0.01)",
                                           "power(1)", "ef | sign(block=128)"));

}  // namespace
}  // namespace sotto::testing

namespace sotto::test {
namespace {

using namespace std::chrono_literals;

struct Job {
  const char* algorithm;
  const char* codec = "none";
};
std::ostream& operator<<(std::ostream& out, const Job& job) { return out << job.algorithm << ", " << job.codec; }

class LongRun : public ::testing::TestWithParam<Job> {};

TEST_P(LongRun, AllocatesNothingThatStays) {
  constexpr std::uint64_t settled = 1000, steps = 11000;
  std::size_t before = 0, after = 0;
  run_threads(2, 120s, [&](Communicator& communicator) {
    Quadratic worker(communicator.rank());
    AlgorithmOptions options;
    options.phases = test::read_phases(GetParam().codec);
    options.topology = test::topology("ring");
    const auto algorithm =
        make_algorithm(test::algorithm(GetParam().algorithm), options, worker.buckets(), communicator);
    const auto measure = [&](std::size_t& bytes) {
      algorithm->drain();
      communicator.barrier();
      if (communicator.rank() == 0) bytes = sotto::testing::allocated_bytes();
      communicator.barrier();
    };
    for (std::uint64_t step = 0; step < steps; ++step) {
      if (step == settled) measure(before);
      algorithm->step(worker, {step, 0.001, false});
    }
    measure(after);
  });
  // One byte a step would be a megabyte in a million steps. Messages that are on their way take less than this limit.
  EXPECT_LT(after, before + (steps - settled)) << before;
}

INSTANTIATE_TEST_SUITE_P(Jobs, LongRun,
                         ::testing::Values(Job{"sync"}, Job{"sync", "ef | topk(0.1)"}, Job{"sync(priority=need)"},
                                           Job{"push_sum"}, Job{"push_sum(overlap=true)"}, Job{"d_psgd"},
                                           Job{"choco", "topk(0.1)"}, Job{"ad_psgd"}, Job{"local(h=4)"},
                                           Job{"parameter_server(mode=async)"},
                                           Job{"parameter_server(mode=stale, bound=2)", "ef | topk(0.1)"}));

}  // namespace
}  // namespace sotto::test
