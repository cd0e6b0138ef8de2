#include "sotto/aggregate/owners.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/codec/fixture.h"

namespace sotto {
namespace {

using Grain = Contract::Grain;

std::vector<Layout> layouts() {
  Layout one;
  one.append("w", {3, 700});
  Layout tiny;
  tiny.append("w", {2});
  return {sotto::testing::mixed_layout(), sotto::testing::borrowed_layout(), one, tiny};
}

// Whether a part may begin at element `at`.
bool allowed(const Layout& layout, const Contract& contract, std::size_t at) {
  if (at == 0 || at == layout.size()) return true;
  if (contract.grain == Grain::element) return at % Layout::alignment == 0;
  for (const Segment& segment : layout.segments()) {
    if (at == segment.offset) return true;
    if (at < segment.offset || at >= segment.range().end) continue;
    if (contract.grain == Grain::block) return (at - segment.offset) % contract.block == 0;
    if (contract.grain == Grain::row) {
      return (at - segment.offset) % (segment.numel() / static_cast<std::size_t>(segment.shape[0])) == 0;
    }
  }
  return false;
}

TEST(Chunks, CoverTheBucketAreCutAtTheGrainAndAreEven) {
  for (const Layout& layout : layouts()) {
    for (const Contract contract : {Contract{.grain = Grain::element}, Contract{.grain = Grain::block, .block = 8},
                                    Contract{.grain = Grain::block, .block = 512}, Contract{.grain = Grain::row},
                                    Contract{.grain = Grain::segment}}) {
      std::size_t largest = 0;
      for (const Segment& segment : layout.segments()) largest = std::max(largest, segment.numel());
      std::size_t grain = largest + Layout::alignment;
      if (contract.grain == Grain::element) grain = Layout::alignment;
      if (contract.grain == Grain::block) grain = std::min(grain, contract.block + Layout::alignment);
      for (const int ranks : {1, 2, 3, 4, 7, 40}) {
        const auto chunks = cut_chunks(layout, contract, ranks);
        ASSERT_EQ(chunks.size(), static_cast<std::size_t>(ranks));
        std::size_t at = 0;
        std::size_t elements = 0;
        for (const Range chunk : chunks) {
          EXPECT_EQ(chunk.begin, at);
          EXPECT_TRUE(allowed(layout, contract, chunk.begin)) << chunk.begin;
          EXPECT_LE(chunk.size(), layout.size() / static_cast<std::size_t>(ranks) + grain);
          at = chunk.end;
          const Layout own = chunk_layout(layout, chunk);
          EXPECT_EQ(own.size(), chunk.size());
          elements += own.numel();
        }
        EXPECT_EQ(at, layout.size());
        EXPECT_EQ(elements, layout.numel());
      }
    }
  }
}

TEST(Chunks, KeepWholeSegmentsAndRows) {
  const Layout layout = sotto::testing::borrowed_layout();  // 3 | 4x11 | gap | 1 | 2x3x5
  EXPECT_EQ(chunk_layout(layout, {3, 47}).segments()[0], (Segment{"second", 0, {4, 11}}));
  EXPECT_EQ(chunk_layout(layout, {14, 36}).segments()[0], (Segment{"second", 0, {2, 11}}));
  EXPECT_EQ(chunk_layout(layout, {0, 10}).segments()[1], (Segment{"second", 3, {1, 7}}));
  EXPECT_EQ(chunk_layout(layout, {66, 83}).segments()[0], (Segment{"fourth", 0, {1, 3, 5}}));
  EXPECT_TRUE(chunk_layout(layout, {47, 50}).segments().empty());
  EXPECT_EQ(chunk_layout(layout, {20, 20}).size(), 0U);
}

TEST(Chunks, EachRankOwnsOneOfEachBucket) {
  for (const int ranks : {1, 2, 3, 7}) {
    for (const int bucket : {0, 1, 5, 100}) {
      std::set<int> chunks;
      for (int owner = 0; owner < ranks; ++owner) chunks.insert(chunk_of(owner, bucket, ranks));
      EXPECT_EQ(chunks.size(), static_cast<std::size_t>(ranks));
      EXPECT_EQ(*chunks.begin(), 0);
      EXPECT_EQ(*chunks.rbegin(), ranks - 1);
    }
  }
  EXPECT_NE(chunk_of(0, 0, 3), chunk_of(0, 1, 3)) << "large segments fall to different ranks";
}

}  // namespace
}  // namespace sotto
