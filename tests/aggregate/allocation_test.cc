#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/aggregate/scheduled_aggregator.h"
#include "sotto/codec/stages.h"
#include "tests/aggregate/group.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/phases.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;

// Several buckets of LeNet's shapes (with a smaller matrix) go through memory, codec, aggregator and a transport that
// keeps its buffers.
TEST(Allocation, AStepAfterTheFirstAllocatesNothing) {
  Layout layout;
  layout.append("conv1.weight", {20, 1, 5, 5});
  layout.append("conv1.bias", {20});
  layout.append("conv2.weight", {50, 20, 5, 5});
  layout.append("conv2.bias", {50});
  layout.append("fc1.weight", {125, 800});
  layout.append("fc1.bias", {125});
  const auto buckets = plan_buckets(layout, 1U << 17);
  ASSERT_GT(buckets.size(), 1U);

  std::vector<std::pair<std::string, std::string>> methods{
      {"power(2)", "auto"},
      {"power(1) | f16", "auto"},
      {"fetch | dct(64)", "auto"},
      {"fetch(0.1) | hadamard(8)", "auto"},
      {"ef | qsgd(bits=4)", "auto"},
      {"ef | qsgd(bits=4)", "hierarchical(outer=gather, group=3)"},
      {"ef | topk(0.01)", "hierarchical(outer=sparse, group=1)"},
      {"momentum | topk(0.1)", "hierarchical(gather, scatter_reduce, 3)"}};
  for (const AggregatorEntry& aggregator : aggregator_table()) {
    for (const char* method :
         {"none", "f16", "ef | bf16", "qsgd(bits=4)", "ef | topk(0.01)", "ef | topk(0.01, scope=bucket) | qsgd(bits=4)",
          "ef | sign(block=128)", "signs", "int8", "ef | threshold(1.5) | f16 | zstd", "momentum | topk(0.01)",
          "momentum(nesterov=true, clip=1) | sampled_topk(0.01) | qsgd(bits=4)", "memsgd | f16",
          "demo | dct2(8) | topk(count=3, scope=chunk)"}) {
      AggregatorParts parts;
      parts.codec = make_codec(read_recipe(method).stages);
      parts.buckets = buckets;
      const auto simple = aggregator_named(aggregator.name);
      if (simple && why_not(*simple, parts).empty()) methods.emplace_back(method, aggregator.name);
    }
  }
  std::vector<std::vector<std::vector<float>>> given(3);  // by rank and step
  for (int rank = 0; rank < 3; ++rank) {
    for (int step = 0; step < 6; ++step) {
      given[static_cast<std::size_t>(rank)].push_back(test::sample_gradient(layout, rank, step));
    }
  }
  for (const auto& pair : methods) {
    const auto& method = pair.first;
    const auto& name = pair.second;
    std::size_t counted = 0;
    run_threads(3, 60s, [&](Communicator& communicator) {
      const auto aggregator = make_aggregator(read_recipe(method, name), buckets, communicator);
      auto gradients = given[static_cast<std::size_t>(communicator.rank())];
      const std::size_t warm = name == "auto" ? 2 : 1;  // the aggregator it chose makes its buffers in the second step
      for (std::size_t step = 0; step < warm; ++step) {
        test::average_all(*aggregator, buckets, gradients[step], static_cast<int>(step), communicator);
      }
      communicator.barrier();
      communicator.barrier();
      const std::size_t before = sotto::testing::allocation_count();
      communicator.barrier();
      for (std::size_t step = warm; step < 6; ++step) {
        test::average_all(*aggregator, buckets, gradients[step], static_cast<int>(step), communicator);
      }
      communicator.barrier();
      if (communicator.rank() == 0) counted = sotto::testing::allocation_count() - before;
      communicator.barrier();
    });
    EXPECT_EQ(counted, 0U) << method << " with " << name;
  }
  const std::size_t before = sotto::testing::allocation_count();
  const std::vector<int> one(1);
  EXPECT_GT(sotto::testing::allocation_count(), before) << "the counter counts";
}

// A phase needs more memory than the model; it is allocated only while the phase is at work.
TEST(Allocation, APhaseOfAScheduleIsMadeWhenItBegins) {
  Layout layout;
  layout.append("one", {1 << 24});
  auto phases = test::read_phases("none");
  for (std::uint64_t step = 1; step < 20; ++step) phases.push_back({step, read_recipe("momentum | topk(0.1)")});
  const std::size_t before = sotto::testing::peak_allocated_bytes();
  const ScheduledAggregator scheduled(phases, plan_buckets(layout, 1U << 30), 0, 2, nullptr);
  EXPECT_LT(sotto::testing::peak_allocated_bytes(), before + (1U << 20));
}

}  // namespace
}  // namespace sotto
