#include "sotto/aggregate/aggregators.h"
#include "sotto/aggregate/recipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "sotto/aggregate/owners.h"
#include "sotto/core/error.h"
#include "tests/aggregate/group.h"
#include "tests/codec/fixture.h"
#include "tests/support/opened.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::average_all, test::message_of, test::sample_buckets, test::sample_gradient, test::sample_layout,
    test::state_of;

const std::array<int, 5> all_ranks{1, 2, 3, 4, 7};

// A code stage changes only bytes, so one number of ranks is enough. In a sample, codecs take turns with the numbers of
// ranks.
std::vector<int> ranks_for(const std::string& expression) {
  static std::size_t turn = 0;
  if (expression.find("zstd") != std::string::npos) return {3};
  if (sotto::testing::is_sample) return {all_ranks[turn++ % all_ranks.size()]};
  return {all_ranks.begin(), all_ranks.end()};
}

// sample_gradient(), made once for the first steps of all ranks, since tests ask for it thousands of times.
const std::vector<float>& gradient_of(int rank, int step) {
  static const auto gradients = [] {
    std::vector<std::array<std::vector<float>, 3>> all(all_ranks.back());
    for (int r = 0; r < all_ranks.back(); ++r) {
      for (int s = 0; s < 3; ++s) {
        all[static_cast<std::size_t>(r)][static_cast<std::size_t>(s)] = sample_gradient(sample_layout(), r, s);
      }
    }
    return all;
  }();
  return gradients[static_cast<std::size_t>(rank)].at(static_cast<std::size_t>(step));
}

// The results of a run, by rank.
struct Outcome {
  std::vector<std::vector<std::vector<float>>> means;  // [rank][step]
  std::vector<test::State> states;
  std::vector<test::State> retired;  // after retire()
  std::vector<Traffic> traffic;
};

Outcome run(int ranks, const std::string& method, int steps) {
  const auto buckets = sample_buckets();
  Outcome result;
  result.means.resize(static_cast<std::size_t>(ranks));
  result.states.resize(static_cast<std::size_t>(ranks));
  result.retired.resize(static_cast<std::size_t>(ranks));
  result.traffic.resize(static_cast<std::size_t>(ranks));
  run_threads(ranks, 20s, [&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    const auto aggregator = make_aggregator(read_recipe(method, "scatter_reduce"), buckets, communicator);
    for (int step = 0; step < steps; ++step) {
      auto values = gradient_of(communicator.rank(), step);
      average_all(*aggregator, buckets, values, step, communicator);
      result.means[rank].push_back(std::move(values));
    }
    result.states[rank] = state_of(*aggregator);
    aggregator->retire();
    result.retired[rank] = state_of(*aggregator);
    result.traffic[rank] = communicator.traffic();
  });
  return result;
}

void expect_same_bits(const Outcome& run) {
  for (const auto& means : run.means) {
    for (std::size_t step = 0; step < means.size(); ++step) {
      const auto& first = run.means[0][step];
      ASSERT_EQ(0, std::memcmp(means[step].data(), first.data(), first.size() * sizeof(float))) << "step " << step;
    }
  }
}

std::vector<double> sum_of_means(int ranks, int steps) {
  std::vector<double> sum(sample_layout().size());
  for (int rank = 0; rank < ranks; ++rank) {
    for (int step = 0; step < steps; ++step) {
      const auto& values = gradient_of(rank, step);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i] / static_cast<double>(ranks);
    }
  }
  return sum;
}

TEST(ScatterReduce, LeavesTheSameBitsOnEveryRankWithEveryCodec) {
  for (const std::string& expression : sotto::testing::listed_codecs()) {
    for (const int ranks : ranks_for(expression)) {
      SCOPED_TRACE(expression + ", ranks " + std::to_string(ranks));
      const Outcome result = run(ranks, expression, 2);
      expect_same_bits(result);
      auto cleared = result.means[0][0];
      sample_layout().clear_padding(cleared);
      EXPECT_EQ(result.means[0][0], cleared);
      const auto codec = make_codec(read_stages(expression));
      if (codec->contract(sample_layout()).kind != Contract::Kind::exact) continue;
      const auto wanted = sum_of_means(ranks, 2);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        ASSERT_NEAR(result.means[0][0][i] + static_cast<double>(result.means[0][1][i]), wanted[i], 2e-6);
      }
    }
  }
}

// The sum of all gradients was applied, or is held in the ranks' first memories or in the owners' second memories.
TEST(ScatterReduce, TwoMemoriesLoseNothing) {
  const int steps = 3;
  const auto buckets = sample_buckets();
  for (const std::string& expression : sotto::testing::all_codecs()) {
    for (const int ranks : ranks_for(expression)) {
      SCOPED_TRACE(expression + ", ranks " + std::to_string(ranks));
      const Outcome result = run(ranks, "ef | " + expression, steps);
      expect_same_bits(result);
      std::vector<double> found(sample_layout().size());
      float largest = 0;  // among the values held back, which grow where a codec has no bound
      for (const auto& mean : result.means[0]) {
        for (std::size_t i = 0; i < found.size(); ++i) found[i] += mean[i];
      }
      for (int rank = 0; rank < ranks; ++rank) {
        const test::State& state = result.states[static_cast<std::size_t>(rank)];
        const auto& first = state.floats.at("memory.ef");
        const auto& second = state.floats.at("mean/error");
        for (const float x : first) largest = std::max(largest, std::abs(x));
        for (const float x : second) largest = std::max(largest, std::abs(x));
        std::size_t at_first = 0;
        std::size_t at_second = 0;
        for (std::size_t b = 0; b < buckets.size(); ++b) {
          const BucketPlan& plan = buckets[b];
          for (std::size_t i = 0; i < plan.range.size(); ++i) {
            found[plan.range.begin + i] += first[at_first++] / static_cast<double>(ranks);
          }
          const auto contract = make_codec(read_stages(expression))->contract(plan.layout);
          const Range chunk = cut_chunks(plan.layout, contract,
                                         ranks)[static_cast<std::size_t>(chunk_of(rank, static_cast<int>(b), ranks))];
          for (std::size_t i = chunk.begin; i < chunk.end; ++i) found[plan.range.begin + i] += second[at_second++];
        }
        EXPECT_EQ(at_second, second.size());
      }
      const auto wanted = sum_of_means(ranks, steps);
      for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 1e-4 + 2e-6 * largest) << i;
    }
  }
}

// After retire(), all that was not applied is in the first memories.
TEST(ScatterReduce, HandsItsMemoryOverWhenItRetires) {
  const int ranks = 3;
  const int steps = 3;
  const Outcome result = run(ranks, "ef | topk(0.1)", steps);
  std::vector<double> found(sample_layout().size());
  for (const auto& mean : result.means[0]) {
    for (std::size_t i = 0; i < found.size(); ++i) found[i] += mean[i];
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto is_zero = [](float value) { return value == 0; };
    EXPECT_FALSE(std::ranges::all_of(result.states[rank].floats.at("mean/error"), is_zero));
    EXPECT_TRUE(std::ranges::all_of(result.retired[rank].floats.at("mean/error"), is_zero));
    std::size_t at = 0;
    for (const BucketPlan& plan : sample_buckets()) {
      for (std::size_t i = 0; i < plan.range.size(); ++i) {
        found[plan.range.begin + i] += result.retired[rank].floats.at("memory.ef")[at++] / static_cast<double>(ranks);
      }
    }
  }
  const auto wanted = sum_of_means(ranks, steps);
  for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 1e-4) << i;
}

// Projects the draws on some directions, one of them the mean itself. The average of each projection over `draws` must
// lie within 5 standard errors. Chance exceeds that about once in two million.
TEST(ScatterReduce, IsUnbiasedWhereTheCodecIs) {
  const int ranks = 3;
  const int draws = 150;
  const Layout layout = sample_layout();
  const auto buckets = sample_buckets();
  const auto mean = sum_of_means(ranks, 1);
  std::vector<std::vector<double>> directions(6, mean);
  Philox random(3, Purpose::test);
  for (std::size_t d = 1; d < directions.size(); ++d) {
    for (double& value : directions[d]) value = d == 1 ? 1.0 : random.normal();
  }
  int tried = 0;
  for (const std::string& expression : sotto::testing::listed_codecs()) {
    if (make_codec(read_stages(expression))->contract(layout).kind != Contract::Kind::unbiased) continue;
    if (expression.find("zstd") != std::string::npos) continue;  // the same values
    SCOPED_TRACE(expression);
    ++tried;
    std::vector<std::vector<double>> projections(directions.size());
    run_threads(ranks, 60s, [&](Communicator& communicator) {
      const auto aggregator = make_aggregator(read_recipe(expression, "scatter_reduce"), buckets, communicator);
      for (int draw = 0; draw < draws; ++draw) {
        auto values = gradient_of(communicator.rank(), 0);
        average_all(*aggregator, buckets, values, draw, communicator);
        if (communicator.rank() != 0) continue;
        for (std::size_t d = 0; d < directions.size(); ++d) {
          projections[d].push_back(std::inner_product(values.begin(), values.end(), directions[d].begin(), 0.0));
        }
      }
    });
    for (std::size_t d = 0; d < directions.size(); ++d) {
      const double wanted = std::inner_product(mean.begin(), mean.end(), directions[d].begin(), 0.0);
      const double found = std::accumulate(projections[d].begin(), projections[d].end(), 0.0) / draws;
      double variance = 0;
      for (const double p : projections[d]) variance += (p - found) * (p - found) / (draws - 1);
      EXPECT_NEAR(found, wanted, 5 * std::sqrt(variance / draws) + 1e-4) << "direction " << d;
      EXPECT_GT(variance, 0) << "it draws";
    }
  }
  EXPECT_GE(tried, 4);
}

// If the owner drew the same random numbers again as in the first encoding, it would round the mean of a 0 and a 1 to
// the value that it had sent itself.
TEST(ScatterReduce, DrawsAnewForTheMean) {
  Layout layout;
  layout.append("w", {512});
  const auto buckets = plan_buckets(layout, 1U << 20);
  run_threads(2, 20s, [&](Communicator& communicator) {
    const auto aggregator = make_aggregator(read_recipe("qsgd(bits=1)", "scatter_reduce"), buckets, communicator);
    std::vector<float> values(layout.size(), 0.5F);
    values[0] = values[256] = 1;
    const auto codec = make_codec(read_stages("qsgd(bits=1)"));
    const Range first{0, 256};  // rank 0's chunk
    Message message;
    codec->encode({values, &layout, 0}, {5, 0, 0, 0}, {}, {&first, 1}, {&message, 1});
    std::vector<float> owners(layout.size());
    Bucket out{owners, &layout, 0};
    test::opened(*codec, message.view(), layout, first)->add_to(out, 1);
    average_all(*aggregator, buckets, values, 0, communicator);
    int others = 0;
    for (std::size_t i = 0; i < first.end; ++i) others += values[i] != owners[i] ? 1 : 0;
    EXPECT_GT(others, 32) << "a quarter of 256 is to be expected";
  });
}

// A header of 32 bytes, and side information and symbols for each piece of the chunk.
std::size_t message_bytes(const Layout& layout, Range chunk, std::size_t bits, std::size_t block) {
  std::size_t bytes = 32;
  for (const Segment& segment : layout.segments()) {
    const std::size_t begin = std::max(segment.offset, chunk.begin);
    const std::size_t end = std::min(segment.range().end, chunk.end);
    if (begin >= end) continue;
    const std::size_t n = end - begin;
    bytes += (bits * n + 7) / 8 + (block == 0 ? 0 : 4 * ((n + block - 1) / block));
  }
  return bytes;
}

TEST(ScatterReduce, SendsWhatTheFormulaSays) {
  struct Fixed {
    const char* method;
    std::size_t bits, block;
  };
  const auto buckets = sample_buckets();
  for (const auto& [method, bits, block] : {Fixed{"none", 32, 0}, Fixed{"int8(block=32)", 8, 32},
                                            Fixed{"qsgd(bits=4, bucket=64)", 5, 64}, Fixed{"sign(block=16)", 1, 16}}) {
    for (const int ranks : all_ranks) {
      SCOPED_TRACE(std::string(method) + ", ranks " + std::to_string(ranks));
      const Outcome result = run(ranks, method, 1);
      std::uint64_t all = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        std::uint64_t wanted = 0;
        for (std::size_t b = 0; b < buckets.size(); ++b) {
          const Layout& layout = buckets[b].layout;
          const auto contract =
              make_codec(read_stages(method == std::string("none") ? "f32" : method))->contract(layout);
          const auto chunks = cut_chunks(layout, contract, ranks);
          for (int owner = 0; owner < ranks; ++owner) {
            const Range chunk = chunks[static_cast<std::size_t>(chunk_of(owner, static_cast<int>(b), ranks))];
            if (chunk.size() == 0) continue;
            const std::uint64_t copies = owner == rank ? static_cast<std::uint64_t>(ranks) - 1 : 1;
            wanted += copies * message_bytes(layout, chunk, bits, block);
          }
        }
        EXPECT_EQ(result.traffic[static_cast<std::size_t>(rank)].bytes_sent, wanted) << "rank " << rank;
        EXPECT_EQ(result.traffic[static_cast<std::size_t>(rank)].bytes_received, wanted) << "rank " << rank;
        all += wanted;
      }
      if (method == std::string("none") && ranks > 1) {
        const double twice = 2.0 * 4 * static_cast<double>(sample_layout().numel()) * (ranks - 1);
        EXPECT_NEAR(static_cast<double>(all), twice, 64.0 * static_cast<double>(buckets.size()) * ranks * ranks)
            << "about two messages (W-1)/W a rank";
      }
    }
  }
}

TEST(ScatterReduce, ResumesToTheSameBits) {
  const auto buckets = sample_buckets();
  for (const char* method : {"ef | topk(0.1)", "ef | qsgd(bits=4)", "qsgd(bits=2)", "ef | sign(block=64) | zstd"}) {
    for (const int ranks : {1, 3, 4}) {
      EXPECT_TRUE(test::resumes(ranks, "scatter_reduce", method, buckets)) << method << " on " << ranks;
    }
  }
}

}  // namespace
}  // namespace sotto
