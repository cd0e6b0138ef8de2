#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/aggregate/recipe.h"
#include "sotto/comm/emulated/threads.h"
#include "sotto/core/error.h"
#include "tests/aggregate/group.h"
#include "tests/aggregate/mirror.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::average_all, test::message_of, test::sample_gradient, test::sample_layout;

struct Case {
  int ranks;
  std::string method;
  std::string aggregator;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.ranks << " ranks, " << c.method << ", " << c.aggregator; }

class Aggregation : public testing::TestWithParam<Case> {};

TEST_P(Aggregation, LeavesTheSameBitsOnEveryRankAndKeepsWhatWasNotSent) {
  const auto& [ranks, method, name] = GetParam();
  const Layout layout = sample_layout();
  const auto buckets = plan_buckets(layout, 1200);
  ASSERT_GT(buckets.size(), 1U);
  const int steps = 3;
  std::vector<std::vector<float>> totals(static_cast<std::size_t>(ranks), std::vector<float>(layout.size()));
  std::vector<std::vector<float>> errors(static_cast<std::size_t>(ranks));
  std::vector<std::vector<std::vector<float>>> means(static_cast<std::size_t>(ranks));

  run_threads(ranks, 20s, [&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    const auto aggregator = make_aggregator(read_recipe(method, name), buckets, communicator);
    for (int step = 0; step < steps; ++step) {
      auto values = sample_gradient(layout, communicator.rank(), step);
      average_all(*aggregator, buckets, values, step, communicator);
      for (std::size_t i = 0; i < values.size(); ++i) totals[rank][i] += values[i];
      means[rank].push_back(values);
    }
    errors[rank] = test::state_of(*aggregator).floats["memory.ef"];
  });

  for (int rank = 1; rank < ranks; ++rank) {
    for (int step = 0; step < steps; ++step) {
      const auto& a = means[0][static_cast<std::size_t>(step)];
      const auto& b = means[static_cast<std::size_t>(rank)][static_cast<std::size_t>(step)];
      ASSERT_EQ(0, std::memcmp(a.data(), b.data(), a.size() * sizeof(float))) << "rank " << rank << " step " << step;
    }
  }

  // With error feedback, the sum of all gradients is what was sent and what the memory still holds. An exact codec
  // needs no memory.
  const bool remembers = method.starts_with("ef");
  if (!remembers && method != "none") return;
  std::vector<double> wanted(layout.size());
  for (int rank = 0; rank < ranks; ++rank) {
    for (int step = 0; step < steps; ++step) {
      const auto values = sample_gradient(layout, rank, step);
      for (std::size_t i = 0; i < values.size(); ++i) wanted[i] += values[i] / static_cast<double>(ranks);
    }
    if (!remembers) continue;
    std::size_t begin = 0;
    for (const BucketPlan& plan : buckets) {
      for (std::size_t i = 0; i < plan.range.size(); ++i) {
        wanted[plan.range.begin + i] -= errors[static_cast<std::size_t>(rank)][begin + i] / static_cast<double>(ranks);
      }
      begin += plan.range.size();
    }
  }
  // A sum in 16 bits is rounded at every addition, to within 2^-11, and no rank remembers that error.
  const double tolerance = name == "all_reduce" && method.ends_with("16") ? steps * ranks * 0x1p-10 : 2e-5;
  for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(totals[0][i], wanted[i], tolerance) << layout.name_at(i);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (const char* method : {"none", "f16", "bf16", "ef | f16", "ef | dct(8) | f16", "ef | randomk(0.01)",
                               "ef | randomk(0.2) | f16", "ef | block(16, 0.1, shared)", "randomk(0.1, unbiased=true)",
                               "ef | count_sketch(3, 10%, 10%)", "ef | count_min(3, 5%, 5%)"}) {
      all.push_back({ranks, method, "all_reduce"});
    }
    for (const char* method : {"none",
                               "ef | topk(0.05)",
                               "ef | topk(0.05) | qsgd(bits=4)",
                               "qsgd(bits=4)",
                               "ef | sign(block=64)",
                               "ef | int8",
                               "ef | threshold(1.0) | f16 | zstd",
                               "svd(rank=2, exact=1) | atomo(s=2)",
                               "dct(8) | atomo(20%)",
                               "ef | randomk(0.01)",
                               "ef | randomk(0.1, shared=false) | qsgd(bits=4)",
                               "ef | block(16, 0.1)",
                               "ef | block(16, 0.1, shared)",
                               "momentum | topk(0.05)",
                               "demo | dct(8) | topk(0.1)",
                               "memsgd | topk(0.05) | qsgd(bits=4)",
                               "momentum | randomk(0.1)",
                               "ef | clusters(c=2, buckets=40, least=4, raw=5, shared=true)",
                               "ef | clusters(c=5, decode=centre, raw=5, shared=true) | rans",
                               "ef | clusters(c=3, buckets=90, least=4, raw=5, shared=true, scope=bucket)"}) {
      all.push_back({ranks, method, "gather"});
    }
    for (const char* method :
         {"ef | topk(0.05)", "ef | topk(0.05) | qsgd(bits=4)", "ef | threshold(1.0) | f16 | zstd",
          "ef | topk(0.1, scope=bucket) | sign(block=16)", "ef | randomk(0.1, shared=false) | int8",
          "ef | block(16, 0.1)", "ef | threshold(keep=5%) | bf16", "topk(0.05)", "momentum | topk(0.05)",
          "memsgd | sampled_topk(0.05) | qsgd(bits=4)", "ef | sampled_topk(0.1, scope=bucket, dense=0)"}) {
      all.push_back({ranks, method, "sparse"});
    }
    for (const char* method : {"signs", "signs | zstd"}) all.push_back({ranks, method, "vote"});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(RanksAndMethods, Aggregation, testing::ValuesIn(cases()));

// Tasks have a few elements only, so that several threads share even short vectors.
TEST(Aggregation, ThreadsOfTheCodecChangeNoBit) {
  const Layout layout = sample_layout();
  const auto buckets = plan_buckets(layout, 1200);
  for (const char* name : {"all_reduce", "gather", "scatter_reduce", "sparse"}) {
    for (const char* method : {"none", "ef | f16", "ef | sign", "ef | topk(0.05) | qsgd(bits=4)", "terngrad"}) {
      const bool linear = std::string_view(method) == "none" || std::string_view(method) == "ef | f16";
      if (std::string_view(name) == "all_reduce" && !linear) continue;
      if (std::string_view(name) == "sparse" && std::string_view(method).find("topk") == std::string_view::npos)
        continue;
      std::vector<std::vector<float>> means(3);
      for (const int threads : {1, 3}) {
        run_threads(3, 20s, [&](Communicator& communicator) {
          const auto pool = std::make_shared<ThreadPool>(threads, 16);
          const auto aggregator = make_aggregator(read_recipe(method, name), buckets, communicator, pool);
          auto& mean = means[static_cast<std::size_t>(communicator.rank())];
          std::vector<float> values;
          for (int step = 0; step < 2; ++step) {
            values = sample_gradient(layout, communicator.rank(), step);
            average_all(*aggregator, buckets, values, step, communicator);
          }
          if (threads == 1) mean = values;
          EXPECT_EQ(values, mean) << name << ", " << method;
        });
      }
    }
  }
}

// The formulas of docs/algorithms/all_reduce.md, for one round and for a ring.
TEST(Aggregation, AllReduceSendsLinearFormsAlone) {
  Layout small;
  small.append("w", {300});
  small.append("b", {4});
  Layout large;
  large.append("w", {40000});
  constexpr std::uint64_t ranks = 4;
  for (const auto& [layout, method, sent] :
       {std::tuple{small, "f16", (ranks - 1) * 320 * 2},  // 304 floats and padding
        {small, "dct(8)", (ranks - 1) * 304 * 4},
        {small, "randomk(0.1)", (ranks - 1) * (300 + 4) * 4},  // both segments are dense
        {small, "randomk(0.1, dense=0)", (ranks - 1) * (30 + 1) * 4},
        {small, "randomk(0.1, dense=4)", (ranks - 1) * (30 + 4) * 4},
        {small, "randomk(0.1, scope=bucket, dense=0)", (ranks - 1) * 31 * 4},
        {small, "hadamard(8) | randomk(0.1, dense=0) | bf16", (ranks - 1) * (30 + 1) * 2},
        {small, "block(16, 0.2, shared, dense=0)", (ranks - 1) * (4 * 16 + 4) * 4},
        {small, "count_sketch(5, 10) | f16", (ranks - 1) * (5 * 10 + 4) * 2},
        {small, "count_min(5, 3%)", (ranks - 1) * (2 * 5 * 9 + 4) * 4},
        {large, "randomk(0.5)", 2 * 20000 * 4 * (ranks - 1) / ranks},
        {large, "block(100, 0.25, shared) | f16", 2 * 10000 * 2 * (ranks - 1) / ranks}}) {
    const auto buckets = plan_buckets(layout, 1U << 20);
    run_threads(ranks, 20s, [&, &layout = layout, &method = method, &sent = sent](Communicator& communicator) {
      const auto aggregator = make_aggregator(read_recipe(method), buckets, communicator);
      EXPECT_EQ(aggregator->name(), "all_reduce");
      std::vector<float> values(layout.size());
      average_all(*aggregator, buckets, values, 0, communicator);
      EXPECT_EQ(communicator.traffic().bytes_sent, sent) << method;
    });
  }
}

TEST(Aggregation, GatherSendsEachMessageToEveryOtherRank) {
  const Layout layout = sample_layout();
  const auto buckets = plan_buckets(layout, 1U << 20);
  const char* method = "threshold(1.0) | f16";  // messages differ in length; all are shorter than max_bytes
  for (const int ranks : {1, 2, 5}) {
    std::vector<std::size_t> sizes(static_cast<std::size_t>(ranks));
    std::vector<Traffic> traffic(static_cast<std::size_t>(ranks));
    run_threads(ranks, 20s, [&](Communicator& communicator) {
      const auto rank = static_cast<std::size_t>(communicator.rank());
      const auto aggregator = make_aggregator(read_recipe(method, "gather"), buckets, communicator);
      auto values = sample_gradient(layout, communicator.rank(), 0);
      const auto codec = make_codec(read_stages(method));
      Bucket bucket{values, &layout, 0};
      const Range whole{0, values.size()};
      Message message;
      codec->encode(bucket, {5, static_cast<std::uint16_t>(rank), 0, 0}, {}, {&whole, 1}, {&message, 1});
      sizes[rank] = message.bytes().size();
      average_all(*aggregator, buckets, values, 0, communicator);
      traffic[rank] = communicator.traffic();
    });
    const std::size_t all = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
      EXPECT_EQ(traffic[rank].bytes_sent, (sizes.size() - 1) * sizes[rank]);
      EXPECT_EQ(traffic[rank].bytes_received, all - sizes[rank]);
    }
  }
}

TEST(Aggregation, RefusesWhatDoesNotFit) {
  const test::Mirror group(2);
  const auto buckets = plan_buckets(sample_layout(), 1U << 20);
  const auto refusal = message_of([&] { make_aggregator(read_recipe("topk(0.1)", "all_reduce"), buckets, group); });
  EXPECT_NE(refusal.find("use gather"), std::string::npos) << refusal;
  EXPECT_THROW(make_aggregator(read_recipe("topk(0.1)", "all_reduce"), buckets, group), ConfigError);
  const auto unknown = message_of([&] { make_aggregator(read_recipe("none", "gahter"), buckets, group); });
  EXPECT_NE(unknown.find("did you mean `gather`"), std::string::npos) << unknown;
}

// A failed exchange must lose nothing: the memory then holds e + g, and the bucket still holds the gradient g.
void expect_nothing_lost(const std::string& method, const std::string& name, const test::Mirror::Tamper& tamper) {
  const Layout layout = sample_layout();
  const auto buckets = plan_buckets(layout, 1U << 20);
  test::Mirror broken(3, tamper);
  const auto aggregator = make_aggregator(read_recipe(method, name), buckets, broken);
  auto values = sample_gradient(layout, 0, 0);
  EXPECT_THROW(average_all(*aggregator, buckets, values, 0, broken), Error);
  EXPECT_EQ(test::state_of(*aggregator).floats["memory.ef"], sample_gradient(layout, 0, 0));
}

TEST(Aggregation, AFailedExchangeIsNotSettled) {
  const auto fail = [](std::span<std::byte>) { throw CommError("the cable is out"); };
  expect_nothing_lost("ef | topk(0.05)", "gather", fail);
  expect_nothing_lost("ef | f16", "all_reduce", fail);
}

TEST(Aggregation, ADamagedMessageIsAWireErrorThatNamesItsRank) {
  const auto flip = [](std::span<std::byte> bytes) { bytes[40] ^= std::byte{4}; };
  expect_nothing_lost("ef | topk(0.05)", "gather", flip);
  const auto buckets = plan_buckets(sample_layout(), 1U << 20);
  test::Mirror broken(2, flip);
  const auto aggregator = make_aggregator(read_recipe("qsgd(bits=4)", "gather"), buckets, broken);
  auto values = sample_gradient(sample_layout(), 0, 7);
  const auto text = message_of([&] { average_all(*aggregator, buckets, values, 7, broken); });
  EXPECT_NE(text.find("message of rank 1 at step 7"), std::string::npos) << text;
}

TEST(Aggregation, ANotFiniteGradientIsAnErrorThatNamesTheTensor) {
  const Layout layout = sample_layout();
  const auto buckets = plan_buckets(layout, 1U << 20);
  for (const char* method : {"none", "f16", "qsgd(bits=4)", "topk(0.05)", "ef | sign"}) {
    test::Mirror mirror(2);
    const auto aggregator = make_aggregator(read_recipe(method), buckets, mirror);
    auto values = sample_gradient(layout, 0, 3);
    values[layout.segments()[2].offset + 7] = std::numeric_limits<float>::quiet_NaN();
    const auto text = message_of([&] { average_all(*aggregator, buckets, values, 3, mirror); });
    EXPECT_NE(text.find("fc.weight"), std::string::npos) << method << ": " << text;
    EXPECT_NE(text.find("step 3"), std::string::npos) << method << ": " << text;
  }
}

// The values of each rank are finite, but their sum overflows, as a float or in 16 bits.
TEST(Aggregation, ASumThatOverflowsIsAnErrorOnEveryRank) {
  const Layout layout = sample_layout();
  const auto buckets = plan_buckets(layout, 1U << 20);
  for (const auto& [method, value] : std::vector<std::pair<const char*, float>>{{"none", 3e38F}, {"f16", 65504.0F}}) {
    run_threads(3, 20s, [&](Communicator& communicator) {
      const auto aggregator = make_aggregator(read_recipe(method, "all_reduce"), buckets, communicator);
      std::vector<float> values(layout.size());
      values[layout.segments()[2].offset + 7] = value;
      const auto text = message_of([&] { average_all(*aggregator, buckets, values, 4, communicator); });
      EXPECT_NE(text.find("fc.weight"), std::string::npos) << method << ": " << text;
      EXPECT_NE(text.find("step 4"), std::string::npos) << method << ": " << text;
    });
  }
  expect_nothing_lost("ef | f16", "all_reduce", [](std::span<std::byte> sum) {
    sum[10] = std::byte{0};
    sum[11] = std::byte{0x7C};  // infinity
  });
}

// The message is well-formed, but its codec cannot have written its body.
TEST(Aggregation, ABadBodyLeavesBucketAndMemoryAndNamesItsRank) {
  const auto spoil = [](std::span<std::byte> bytes) {
    if (MessageView::parse(bytes).header().origin != 2) return;
    test::replace_body(bytes, [](std::span<std::byte> body) { body[3] = std::byte{0xFF}; });  // a length or a norm
  };
  expect_nothing_lost("ef | topk(0.05)", "gather", spoil);
  const Layout layout = sample_layout();
  const auto buckets = plan_buckets(layout, 1U << 20);
  for (const char* method : {"topk(0.05)", "qsgd(bits=4)"}) {
    test::Mirror broken(3, spoil);
    const auto aggregator = make_aggregator(read_recipe(method, "gather"), buckets, broken);
    auto values = sample_gradient(layout, 0, 7);
    const auto text = message_of([&] { average_all(*aggregator, buckets, values, 7, broken); });
    EXPECT_NE(text.find("message of rank 2 at step 7"), std::string::npos) << method << ": " << text;
    EXPECT_EQ(values, sample_gradient(layout, 0, 7)) << method;
  }
}

}  // namespace
}  // namespace sotto
