#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/core/random.h"
#include "tests/aggregate/mirror.h"
#include "tests/support/allocation_counter.h"

namespace sotto {
namespace {

// LeNet's shapes in several buckets, through memory, codec and aggregator, with a transport that allocates nothing.
TEST(Allocation, AStepAfterTheFirstAllocatesNothing) {
  Layout layout;
  layout.append("conv1.weight", {20, 1, 5, 5});
  layout.append("conv1.bias", {20});
  layout.append("conv2.weight", {50, 20, 5, 5});
  layout.append("conv2.bias", {50});
  layout.append("fc1.weight", {500, 800});
  layout.append("fc1.bias", {500});
  const auto buckets = plan_buckets(layout, 1U << 17);
  ASSERT_GT(buckets.size(), 1U);

  for (const auto& [method, name] :
       std::vector<std::pair<std::string, std::string>>{{"none", "all_reduce"},
                                                        {"f16", "all_reduce"},
                                                        {"ef | bf16", "all_reduce"},
                                                        {"none", "gather"},
                                                        {"qsgd(bits=4)", "gather"},
                                                        {"ef | topk(0.01)", "gather"},
                                                        {"ef | topk(0.01, scope=bucket) | qsgd(bits=4)", "gather"},
                                                        {"ef | sign(block=128)", "gather"},
                                                        {"int8", "gather"},
                                                        {"ef | threshold(1.5) | f16 | zstd", "gather"}}) {
    const auto aggregator = make_aggregator("test", name, method, buckets);
    test::Mirror mirror(3);
    std::vector<float> gradient(layout.size());
    Phases phases;
    std::size_t counted = 0;
    for (int step = 0; step < 6; ++step) {
      Philox random(9, Purpose::test, static_cast<std::uint64_t>(step));
      for (float& value : gradient) value = static_cast<float>(random.normal());
      layout.clear_padding(gradient);
      const std::size_t before = sotto::testing::allocation_count();
      for (std::size_t b = 0; b < buckets.size(); ++b) {
        Bucket bucket{std::span(gradient).subspan(buckets[b].range.begin, buckets[b].range.size()), &buckets[b].layout,
                      static_cast<std::uint16_t>(b)};
        aggregator->average(bucket, {1, 0, 0, static_cast<std::uint32_t>(step)}, mirror, phases);
      }
      if (step > 0) counted += sotto::testing::allocation_count() - before;
    }
    EXPECT_EQ(counted, 0U) << method << " with " << name;
  }
  const std::size_t before = sotto::testing::allocation_count();
  const std::vector<int> one(1);
  EXPECT_GT(sotto::testing::allocation_count(), before) << "the counter counts";
}

}  // namespace
}  // namespace sotto
