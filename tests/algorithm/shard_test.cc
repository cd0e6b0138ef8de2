// How the buckets of a model are shared out among servers.
#include "sotto/algorithm/server/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace sotto {
namespace {

TEST(Shards, AreBalancedAndWhole) {
  Layout layout;
  for (const std::int64_t size : {100, 1600, 300, 800, 200, 700, 64}) layout.append("x", {size});
  const auto buckets = plan_buckets(layout, 64);
  for (const std::size_t servers : {1U, 2U, 3U, 5U}) {
    const auto shards = share_out(buckets, servers);
    std::vector<float> flat(layout.size()), back(layout.size());
    std::iota(flat.begin(), flat.end(), 1.0F);
    std::size_t most = 0;
    for (const Shard& shard : shards) {
      std::vector<float> own(shard.size());
      shard.gather(flat, own);
      shard.scatter(own, back);
      most = std::max(most, shard.size());
      EXPECT_FALSE(shard.parts().empty());
    }
    EXPECT_EQ(back, flat);
    EXPECT_LE(most, std::max<std::size_t>(1600, layout.size() * 4 / (3 * servers) + 16)) << servers;
  }
}

}  // namespace
}  // namespace sotto
