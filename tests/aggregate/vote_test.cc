#include "sotto/aggregate/aggregators.h"
#include "sotto/aggregate/recipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "sotto/aggregate/owners.h"
#include "sotto/core/error.h"
#include "tests/aggregate/group.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::average_all, test::message_of, test::sample_buckets, test::sample_gradient, test::sample_layout;

using Values = std::vector<std::vector<float>>;  // by rank

// The result of a vote on `values`, by rank; `traffic` gets the bytes of each rank.
Values vote(Values values, const std::vector<BucketPlan>& buckets, std::uint64_t seed = 5, int step = 0,
            std::vector<Traffic>* traffic = nullptr) {
  if (traffic != nullptr) traffic->resize(values.size());
  run_threads(static_cast<int>(values.size()), 20s, [&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    const auto aggregator = make_aggregator(read_recipe("signs", "vote"), buckets, communicator);
    average_all(*aggregator, buckets, values[rank], step, communicator, seed);
    if (traffic != nullptr) (*traffic)[rank] = communicator.traffic();
  });
  return values;
}

TEST(Vote, IsTheMajorityOfSigns) {
  const Layout layout = sample_layout();
  for (const int ranks : {1, 2, 3, 4, 6, 7}) {
    Values given;
    for (int rank = 0; rank < ranks; ++rank) given.push_back(sample_gradient(layout, rank, 0));
    const Values found = vote(given, sample_buckets());
    int ties = 0;
    for (const Segment& segment : layout.segments()) {
      for (std::size_t i = segment.offset; i < segment.range().end; ++i) {
        int count = 0;
        for (const auto& values : given) count += values[i] > 0 ? 1 : -1;
        ties += count == 0 ? 1 : 0;
        for (const auto& values : found) {
          ASSERT_EQ(std::abs(values[i]), 1) << ranks;
          if (count != 0) {
            ASSERT_EQ(values[i], count > 0 ? 1 : -1) << ranks << " " << i;
          }
        }
      }
    }
    EXPECT_EQ(ties > 0, ranks % 2 == 0);
    for (const auto& values : found) {
      EXPECT_EQ(0, std::memcmp(values.data(), found[0].data(), values.size() * sizeof(float))) << ranks;
      auto cleared = values;
      layout.clear_padding(cleared);
      EXPECT_EQ(cleared, values) << "padding";
    }
  }
}

// Of six signs three are negative. Whole numbers cancel exactly; sums of sixths would not.
TEST(Vote, DrawsTheSideOfATieAndOfAZero) {
  Layout layout;
  layout.append("w", {4096});
  const auto buckets = plan_buckets(layout, 1U << 20);
  for (const bool zeros : {false, true}) {
    Values given(6, std::vector<float>(layout.size()));
    for (std::size_t rank = 0; rank < given.size(); ++rank) {
      for (std::size_t i = 0; i < layout.size(); ++i) given[rank][i] = zeros ? 0.0F : (rank + i) % 2 == 0 ? 1 : -1;
    }
    const auto negative = [&](const std::vector<float>& values) { return std::ranges::count(values, -1.0F); };
    const Values found = vote(given, buckets);
    for (const auto& values : found) EXPECT_EQ(values, found[0]);
    // Of 4096 coins, 2048 are expected, with a standard deviation of 32; five of them are allowed.
    EXPECT_NEAR(static_cast<double>(negative(found[0])), 2048, 160) << zeros;
    EXPECT_EQ(vote(given, buckets), found) << "the same in a replay";
    EXPECT_NE(vote(given, buckets, 6), found) << "another seed";
    EXPECT_NE(vote(given, buckets, 5, 1), found) << "another step";
  }
}

TEST(Vote, SendsABitEachWay) {
  const auto buckets = sample_buckets();
  for (const int ranks : {1, 2, 3, 4, 7}) {
    Values given;
    for (int rank = 0; rank < ranks; ++rank) given.push_back(sample_gradient(sample_layout(), rank, 0));
    std::vector<Traffic> traffic;
    vote(given, buckets, 5, 0, &traffic);
    for (int rank = 0; rank < ranks; ++rank) {
      std::uint64_t wanted = 0;
      for (std::size_t b = 0; b < buckets.size(); ++b) {
        const Layout& layout = buckets[b].layout;
        const auto chunks = cut_chunks(layout, make_codec(read_stages("signs"))->contract(layout), ranks);
        for (int owner = 0; owner < ranks; ++owner) {
          const Range chunk = chunks[static_cast<std::size_t>(chunk_of(owner, static_cast<int>(b), ranks))];
          if (chunk.size() == 0) continue;
          std::uint64_t message = 32;
          const Layout own = chunk_layout(layout, chunk);
          for (const Segment& segment : own.segments()) message += (segment.numel() + 7) / 8;
          wanted += message * (owner == rank ? static_cast<std::uint64_t>(ranks) - 1 : 1);
        }
      }
      EXPECT_EQ(traffic[static_cast<std::size_t>(rank)].bytes_sent, wanted) << ranks;
      EXPECT_EQ(traffic[static_cast<std::size_t>(rank)].bytes_received, wanted) << ranks;
    }
  }
}

TEST(Vote, RefusesWhatIsNoSign) {
  const auto buckets = sample_buckets();
  for (const char* method : {"none", "qsgd(bits=1)", "sign", "topk(0.1) | signs", "dct(8) | signs"}) {
    const auto text = message_of([&] { make_aggregator(read_recipe(method, "vote"), buckets, 0, 2); });
    EXPECT_NE(text.find("use `signs`, or scatter_reduce"), std::string::npos) << method << ": " << text;
  }
  EXPECT_EQ(make_aggregator(read_recipe("signs", "vote"), buckets, 0, 2)->name(), "vote");
}

// Exchange `which` is damaged: the one of the first round, or of the second.
TEST(Vote, ABadMessageLeavesTheBucket) {
  const auto buckets = plan_buckets(sample_layout(), 1U << 20);
  for (const int which : {0, 1}) {
    run_threads(3, 20s, [&](Communicator& group) {
      test::Spoilt communicator(group, [&](int exchange, std::span<Recv> arrived) {
        if (group.rank() != 1 || exchange != which) return;
        const std::size_t size = MessageView::parse(arrived.front().buffer).size();
        arrived.front().buffer[size - 1] ^= std::byte{1};
      });
      const auto aggregator = make_aggregator(read_recipe("signs", "vote"), buckets, communicator);
      const auto gradient = sample_gradient(sample_layout(), group.rank(), 0);
      auto values = gradient;
      if (group.rank() != 1) {
        try {
          average_all(*aggregator, buckets, values, 0, communicator);
        } catch (const CommError&) {  // rank 1 is gone
        }
        return;
      }
      const auto text = message_of([&] { average_all(*aggregator, buckets, values, 0, communicator); });
      EXPECT_NE(text.find("message of rank"), std::string::npos) << text;
      EXPECT_EQ(values, gradient);
    });
  }
}

TEST(Vote, ResumesToTheSameBits) { EXPECT_TRUE(test::resumes(3, "vote", "signs", sample_buckets())); }

}  // namespace
}  // namespace sotto
