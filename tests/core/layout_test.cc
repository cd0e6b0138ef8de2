#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "sotto/core/error.h"
#include "sotto/core/layout.h"

namespace sotto {
namespace {

Layout small_layout() {
  Layout layout;
  layout.append("conv.weight", {20, 1, 5, 5});  // 500 -> 512
  layout.append("conv.bias", {20});             // 20 -> 32
  layout.append("scale", {});                   // a scalar, 1 -> 16
  layout.append("empty", {0, 3});               // 0 -> 0
  layout.append("fc.weight", {10, 16});         // 160 -> 160
  return layout;
}

TEST(Layout, SegmentsAreAligned) {
  const Layout layout = small_layout();
  EXPECT_EQ(layout.size(), 512U + 32 + 16 + 160);
  EXPECT_EQ(layout.numel(), 500U + 20 + 1 + 160);
  const auto segments = layout.segments();
  ASSERT_EQ(segments.size(), 5U);
  EXPECT_EQ(segments[0].range(), (Range{0, 500}));
  EXPECT_EQ(segments[1].range(), (Range{512, 532}));
  EXPECT_EQ(segments[2].range(), (Range{544, 545}));
  EXPECT_EQ(segments[3].range(), (Range{560, 560}));
  EXPECT_EQ(segments[4].range(), (Range{560, 720}));
  for (const Segment& s : segments) EXPECT_EQ(s.offset % Layout::alignment, 0U);
}

TEST(Layout, NamesOfElements) {
  const Layout layout = small_layout();
  EXPECT_EQ(layout.name_at(0), "conv.weight");
  EXPECT_EQ(layout.name_at(499), "conv.weight");
  EXPECT_EQ(layout.name_at(500), "padding");
  EXPECT_EQ(layout.name_at(531), "conv.bias");
  EXPECT_EQ(layout.name_at(560), "fc.weight");
  EXPECT_EQ(layout.name_at(719), "fc.weight");
  EXPECT_EQ(layout.name_at(100'000), "padding");
}

TEST(Layout, ClearPaddingTouchesNothingElse) {
  const Layout layout = small_layout();
  std::vector<float> values(layout.size(), 1.0F);
  layout.clear_padding(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], layout.name_at(i) == "padding" ? 0.0F : 1.0F) << i;
  }
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0.0F), static_cast<float>(layout.numel()));
}

TEST(Layout, SlicesAreLayoutsOfTheirOwn) {
  const Layout layout = small_layout();
  EXPECT_EQ(layout.slice_range(1, 3), (Range{512, 560}));
  const Layout part = layout.slice(1, 3);
  EXPECT_EQ(part.size(), 48U);
  ASSERT_EQ(part.segments().size(), 2U);
  EXPECT_EQ(part.segments()[0], (Segment{"conv.bias", 0, {20}}));
  EXPECT_EQ(part.segments()[1], (Segment{"scale", 32, {}}));
  EXPECT_EQ(layout.slice(0, 5), layout);
  EXPECT_EQ(layout.slice_range(4, 5), (Range{560, 720}));
  EXPECT_THROW(layout.slice_range(2, 2), std::logic_error);
  EXPECT_THROW(layout.slice(0, 6), std::logic_error);
}

TEST(Layout, BorrowedVectorsKeepTheirOffsets) {
  const Layout layout({{"a", 0, {3}}, {"b", 3, {2, 2}}, {"c", 9, {1}}}, 12);
  EXPECT_EQ(layout.size(), 12U);
  EXPECT_EQ(layout.numel(), 8U);
  EXPECT_EQ(layout.name_at(3), "b");
  EXPECT_EQ(layout.name_at(7), "padding");
  EXPECT_EQ(layout.slice_range(0, 2), (Range{0, 9}));
  EXPECT_EQ(layout.slice_range(2, 3), (Range{9, 12}));
  EXPECT_THROW(Layout({{"a", 0, {3}}, {"b", 2, {2}}}, 10), std::logic_error);
  EXPECT_THROW(Layout({{"a", 0, {3}}}, 2), std::logic_error);
}

TEST(Layout, RefusesSizesThatCannotBe) {
  Layout layout;
  constexpr std::int64_t large = std::int64_t{1} << 40;
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{-3}, {-1, -1}, {large, large}}) {
    EXPECT_THROW(layout.append("w", shape), std::logic_error);
    EXPECT_THROW(Layout({{"w", 0, shape}}, 100), std::logic_error);
  }
  layout.append("w", {large, large >> 20});
  EXPECT_THROW(layout.append("w", {1}), std::logic_error);
  EXPECT_EQ(layout.size(), std::size_t{1} << 60);
  EXPECT_THROW(plan_buckets(layout, 1), std::logic_error) << "messages count 65536 buckets";
}

TEST(Buckets, AreNoMoreThanMessagesCount) {
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < 65536; ++i) segments.push_back({"w", i, {1}});
  EXPECT_EQ(plan_buckets(Layout(segments, segments.size()), 4).size(), 65536U);
  segments.push_back({"w", segments.size(), {1}});
  const Layout layout(segments, segments.size());
  EXPECT_EQ(plan_buckets(layout, 8).size(), 32769U);
  EXPECT_THROW(plan_buckets(layout, 4), ConfigError);
}

TEST(Layout, HashSeesEverything) {
  const Layout layout({{"a", 0, {2, 3}}, {"b", 6, {4}}}, 10);
  EXPECT_EQ(layout.hash(), Layout({{"a", 0, {2, 3}}, {"b", 6, {4}}}, 10).hash());
  EXPECT_NE(layout.hash(), Layout({{"a", 0, {3, 2}}, {"b", 6, {4}}}, 10).hash());
  EXPECT_NE(layout.hash(), Layout({{"a", 0, {6}}, {"b", 6, {4}}}, 10).hash());
  EXPECT_NE(layout.hash(), Layout({{"c", 0, {2, 3}}, {"b", 6, {4}}}, 10).hash());
  EXPECT_NE(layout.hash(), Layout({{"a", 0, {2, 3}}, {"b", 6, {4}}}, 11).hash());
  EXPECT_NE(layout.hash(), Layout({{"a", 0, {2, 3}}, {"b", 7, {3}}}, 10).hash());
  // The hash is part of messages, so it is the same on every machine and in every version.
  EXPECT_EQ(layout.hash(), 0xCA3122DDE56997CCULL);
}

TEST(Buckets, AreModulesWhereThatIsAskedFor) {
  Layout layout;
  for (const char* name : {"conv1.weight", "conv1.bias", "block.conv1.weight", "block.conv1.bias", "block.bn.weight",
                           "w", "b", "fc.weight"}) {
    layout.append(name, {20});
  }
  const auto plans = plan_layers(layout);
  std::vector<std::size_t> firsts;
  std::size_t last = layout.segments().size();
  for (const BucketPlan& plan : plans) {
    EXPECT_EQ(plan.last, last);
    EXPECT_EQ(plan.range, layout.slice_range(plan.first, plan.last));
    EXPECT_EQ(plan.layout, layout.slice(plan.first, plan.last));
    firsts.push_back(last = plan.first);
  }
  EXPECT_EQ(firsts, (std::vector<std::size_t>{7, 6, 5, 4, 2, 0}));
  EXPECT_TRUE(plan_layers(Layout()).empty());
}

// A segment that is too long for a message becomes several buckets, cut between rows.
TEST(Buckets, LongSegmentsAreCut) {
  Layout layout;
  layout.append("small", {3, 5});
  layout.append("matrix", {70, 2, 10});
  layout.append("rows", {2, 1000});
  layout.append("vector", {850});
  constexpr std::size_t most = 400;
  for (const auto& plans : {plan_buckets(layout, 1U << 20, most), plan_layers(layout, most)}) {
    std::size_t end = layout.size();
    std::vector<std::string> names;
    for (const BucketPlan& plan : plans) {
      ASSERT_EQ(plan.range.end, end);
      ASSERT_EQ(plan.range.size(), plan.layout.size());
      EXPECT_LE(plan.layout.numel(), most);
      for (const Segment& segment : plan.layout.segments()) names.push_back(segment.name);
      end = plan.range.begin;
    }
    EXPECT_EQ(end, 0U);
    EXPECT_EQ(names, (std::vector<std::string>{"vector[800:850]", "vector[400:800]", "vector[0:400]", "rows[1800:2000]",
                                               "rows[1400:1800]", "rows[1000:1400]", "rows[800:1000]", "rows[400:800]",
                                               "rows[0:400]", "matrix[64:70]", "matrix[48:64]", "matrix[32:48]",
                                               "matrix[16:32]", "matrix[0:16]", "small"}));
    EXPECT_EQ(plans[0].layout.segments()[0].shape, (std::vector<std::int64_t>{50}));
    EXPECT_EQ(plans[0].range.size(), 64U);  // with padding
    EXPECT_EQ(plans[3].layout.segments()[0].shape, (std::vector<std::int64_t>{1, 200}));
    EXPECT_EQ(plans[10].layout.segments()[0].shape, (std::vector<std::int64_t>{16, 2, 10}));
    EXPECT_EQ(plans[10].first, 1U);
    EXPECT_EQ(plans[10].last, 2U);
  }
  for (const BucketPlan& plan : plan_buckets(layout, 1U << 20)) EXPECT_EQ(plan.last - plan.first, 4U);
  for (const BucketPlan& plan : plan_buckets(Layout({{"w", 0, {100}}}, 100), 1U << 20, 40)) {  // without padding
    EXPECT_LE(plan.range.size(), 40U);
  }
}

TEST(Buckets, CoverEverythingOnceInReverse) {
  Layout layout;
  for (int i = 0; i < 40; ++i) layout.append("s" + std::to_string(i), {(i * 37) % 100 + 1});
  for (const std::size_t bytes : {1UL, 64UL, 400UL, 1000UL, 1UL << 20}) {
    const auto plans = plan_buckets(layout, bytes);
    std::size_t last = layout.segments().size();
    std::size_t end = layout.size();
    for (const BucketPlan& plan : plans) {
      ASSERT_EQ(plan.last, last);
      ASSERT_LT(plan.first, plan.last);
      ASSERT_EQ(plan.range.end, end);
      ASSERT_EQ(plan.range, layout.slice_range(plan.first, plan.last));
      ASSERT_EQ(plan.layout, layout.slice(plan.first, plan.last));
      if (plan.last - plan.first > 1) {
        EXPECT_LE(plan.range.size() * sizeof(float), bytes);
      }
      if (plan.first > 0) {  // another segment would not have fitted
        EXPECT_GT(layout.slice_range(plan.first - 1, plan.last).size() * sizeof(float), bytes);
      }
      last = plan.first;
      end = plan.range.begin;
    }
    EXPECT_EQ(last, 0U);
    EXPECT_EQ(end, 0U);
  }
  EXPECT_EQ(plan_buckets(layout, 1).size(), 40U);
  EXPECT_THROW(plan_buckets(layout, 1, 0), std::logic_error);
  EXPECT_EQ(plan_buckets(layout, 1U << 20).size(), 1U);
  EXPECT_TRUE(plan_buckets(Layout(), 100).empty());
}

}  // namespace
}  // namespace sotto
