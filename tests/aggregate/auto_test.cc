#include "sotto/aggregate/aggregators.h"
#include "sotto/aggregate/recipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sotto/aggregate/gathered_step.h"
#include "sotto/core/error.h"
#include "tests/aggregate/group.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::average_all, test::sample_gradient, test::sample_layout, test::state_of;

struct Choice {
  std::string first, then, remark;
};

// Large enough for bytes to count for more than rounds.
Layout large_layout() {
  Layout layout;
  layout.append("fc1.weight", {192, 256});
  layout.append("fc1.bias", {192});
  layout.append("fc2.weight", {64, 256});
  return layout;
}

// What `auto` uses in the first step, and what it uses afterwards, which is the same on every rank.
Choice choice(int ranks, const std::string& method, const Layout& layout, std::size_t bucket_bytes = 1U << 18) {
  const auto buckets = plan_buckets(layout, bucket_bytes);
  std::vector<Choice> choices(static_cast<std::size_t>(ranks));
  run_threads(ranks, 20s, [&](Communicator& communicator) {
    const auto aggregator = make_aggregator(read_recipe(method), buckets, communicator);
    Choice& mine = choices[static_cast<std::size_t>(communicator.rank())];
    mine.first = aggregator->name();
    // Ranks have messages of different sizes, and must agree nevertheless.
    auto values = sample_gradient(layout, communicator.rank(), 0);
    for (float& value : values) value *= static_cast<float>(1 + communicator.rank());
    average_all(*aggregator, buckets, values, 0, communicator);
    mine.then = aggregator->name();
    mine.remark = aggregator->remark();
  });
  for (const Choice& each : choices) {
    EXPECT_EQ(each.then, choices[0].then) << method;
    EXPECT_EQ(each.remark, choices[0].remark) << method;
  }
  return choices[0];
}

TEST(Auto, AllReducesWhatIsLinear) {
  for (const char* method : {"none", "ef | f16", "bf16"}) {
    for (const int ranks : {1, 2, 7}) {
      const Choice found = choice(ranks, method, sample_layout());
      EXPECT_EQ(found.first, "all_reduce");
      EXPECT_EQ(found.then, "all_reduce");
      EXPECT_EQ(found.remark.empty(), ranks == 1);
    }
  }
}

// A sum in 16 bits ends at 65504, and a message does not. Only one rank has such a value, and all gather.
TEST(Auto, GathersWhatIsTooLargeForASum) {
  const Layout layout = sample_layout();
  const auto buckets = plan_buckets(layout, 1200);
  constexpr int steps = 4;
  for (const char* method : {"f16", "ef | f16", "momentum | f16", "auto", "auto(quality=medium)"}) {
    for (const int ranks : {1, 2, 3}) {
      std::vector<std::vector<float>> means(static_cast<std::size_t>(ranks));
      std::vector<double> wanted(layout.size());
      run_threads(ranks, 20s, [&](Communicator& communicator) {
        const auto aggregator = make_aggregator(read_recipe(method), buckets, communicator);
        auto& sum = means[static_cast<std::size_t>(communicator.rank())];
        for (int step = 0; step < steps; ++step) {
          auto values = sample_gradient(layout, communicator.rank(), step);
          if (step % 2 == 1 && communicator.rank() == ranks - 1) values[layout.segments()[2].offset] = 3e6F;
          average_all(*aggregator, buckets, values, step, communicator);
          sum.insert(sum.end(), values.begin(), values.end());
        }
        const bool tells = aggregator->remark().find("gather where a value is too large") != std::string::npos;
        EXPECT_EQ(tells, ranks > 1 && std::string_view(method).ends_with("f16")) << aggregator->remark();
      });
      for (const auto& mean : means) EXPECT_EQ(mean, means[0]) << method << ", " << ranks << " ranks";
      const float sent = means[0][layout.size() + layout.segments()[2].offset];
      EXPECT_NEAR(sent, 3e6F / static_cast<float>(ranks), 3e6F / 1024) << method << ", " << ranks << " ranks";
      for (const float value : means[0]) ASSERT_TRUE(std::isfinite(value));
    }
  }
}

// All of it is sent in the end, and nothing twice.
TEST(Auto, LosesNothingWhereItGathersInstead) {
  const Layout layout = sample_layout();
  const auto buckets = plan_buckets(layout, 1200);
  run_threads(2, 20s, [&](Communicator& communicator) {
    const auto aggregator = make_aggregator(read_recipe("ef | f16"), buckets, communicator);
    std::vector<double> sum(layout.size()), wanted(layout.size());
    for (int step = 0; step < 6; ++step) {
      auto values = sample_gradient(layout, communicator.rank(), step);
      const auto add = [&](std::vector<double>& to, std::span<const float> from, double share) {
        for (std::size_t i = 0; i < from.size(); ++i) to[i] += share * static_cast<double>(from[i]);
      };
      for (const int rank : {0, 1}) {
        auto own = sample_gradient(layout, rank, step);
        if (step < 3) own[layout.segments()[1].offset] = 7e4F + static_cast<float>(rank);
        add(wanted, own, 0.5);
        if (rank == communicator.rank()) values = own;
      }
      average_all(*aggregator, buckets, values, step, communicator);
      add(sum, values, 1);
    }
    for (const Segment& segment : layout.segments()) {
      for (std::size_t i = segment.offset; i < segment.range().end; ++i) {
        ASSERT_NEAR(sum[i], wanted[i], std::abs(wanted[i]) > 1e4 ? 1.0 : 5e-3) << layout.name_at(i);
      }
    }
  });
}

// Who asks for the sum gets an error, on all ranks.
TEST(AllReduce, RefusesOnEveryRankWhatIsTooLargeForASum) {
  const auto buckets = plan_buckets(sample_layout(), 1U << 20);
  run_threads(3, 20s, [&](Communicator& communicator) {
    const auto aggregator = make_aggregator(read_recipe("ef | f16", "all_reduce"), buckets, communicator);
    auto values = sample_gradient(sample_layout(), communicator.rank(), 0);
    if (communicator.rank() == 1) values[3] = 1e6F;
    const auto before = values;
    const std::string text = test::message_of([&] { average_all(*aggregator, buckets, values, 4, communicator); });
    EXPECT_NE(text.find("does not fit f16"), std::string::npos) << text;
    EXPECT_NE(text.find("use bf16, or gather the messages"), std::string::npos) << text;
    EXPECT_NE(text.find("step 4"), std::string::npos) << text;
    EXPECT_EQ(values, before);
  });
}

TEST(Auto, TakesFewerBytesWhereTheSecondEncodingLosesLittle) {
  for (const char* method : {"int8", "qsgd(bits=4)", "natural", "f32 | zstd", "ef | int8"}) {
    const Choice two = choice(2, method, large_layout());
    EXPECT_EQ(two.then, "gather") << "as many bytes, and a round more: " << two.remark;
    EXPECT_EQ(two.remark.find("aggregator: gather, "), 0U) << two.remark;
    EXPECT_NE(two.remark.find(" for scatter_reduce"), std::string::npos) << two.remark;
    for (const int ranks : {4, 9}) {
      const Choice found = choice(ranks, method, large_layout());
      EXPECT_EQ(found.first, "gather") << method;
      EXPECT_EQ(found.then, "scatter_reduce") << method << ": " << found.remark;
      EXPECT_EQ(found.remark.find("aggregator: scatter_reduce, "), 0U) << found.remark;
    }
  }
}

TEST(Auto, SaysWhyFewerBytesAreNotTaken) {
  Layout small;  // rounds cost more than it has bytes
  small.append("w", {64, 64});
  const Choice found = choice(4, "ef | int8", small);
  EXPECT_EQ(found.then, "gather") << found.remark;
  EXPECT_NE(found.remark.find(" KiB for scatter_reduce in more rounds, each of which takes as long as 16 KiB a bucket"),
            std::string::npos)
      << found.remark;
}

// Averaging over ranks does not reduce the noise of the second encoding.
TEST(Auto, GathersWhatASecondEncodingWouldDrownInNoise) {
  Layout matrix;
  matrix.append("w", {128, 256});
  for (const auto& [method, layout] :
       {std::pair{"svd | atomo(s=3)", matrix}, {"atomo(1%)", large_layout()}, {"atomo(35%)", large_layout()}}) {
    for (const int ranks : {5, 16}) {
      const Choice found = choice(ranks, method, layout);
      EXPECT_EQ(found.then, "gather") << found.remark;
      EXPECT_NE(found.remark.find(", whose second encoding makes "), std::string::npos) << found.remark;
    }
  }
  EXPECT_NE(choice(5, "ef | topk(0.1)", large_layout()).then, "gather") << "the owner sends it later";
}

// With messages of a few KiB, a second round takes longer than the messages themselves.
TEST(Auto, CountsRounds) {
  for (const char* method : {"int8", "ef | topk(0.1)", "f32 | zstd"}) {
    for (const int ranks : {4, 9}) {
      const Choice found = choice(ranks, method, sample_layout(), 1200);
      EXPECT_EQ(found.then, "gather") << method << ": " << found.remark;
    }
  }
}

// Chunks are whole segments here, so one of nine ranks owns everything. Regions of `sparse` are cut by the number of
// entries.
TEST(Auto, BalancesWhatChunksWouldNot) {
  Layout layout;
  layout.append("w", {400, 200});
  for (const char* method : {"ef | topk(0.5) | clusters", "ef | topk(0.5) | adaptive"}) {
    const Choice found = choice(9, method, layout);
    EXPECT_EQ(found.then, "sparse") << found.remark;
    EXPECT_EQ(found.remark.find("aggregator: sparse, "), 0U) << found.remark;
    EXPECT_NE(found.remark.find(" for gather and "), std::string::npos) << found.remark;
    EXPECT_NE(found.remark.find(" for scatter_reduce"), std::string::npos) << found.remark;
    EXPECT_EQ(choice(9, std::string(method).substr(5), layout).then, "gather") << "what it drops would be lost";
  }
  EXPECT_NE(choice(9, "ef | topk(0.5)", layout).remark.find(" for sparse"), std::string::npos);
}

struct Exchanged {
  double bytes = 0;  // of one step, sent by the rank that sends most
  double power = 0;  // the mean over the steps of |result|^2
};

Exchanged exchange(const std::string& name, const std::string& method, int ranks, int steps) {
  const auto buckets = plan_buckets(large_layout(), 1U << 18);
  Exchanged exchanged;
  run_threads(ranks, 20s, [&](Communicator& communicator) {
    const auto aggregator = make_aggregator(read_recipe(method, name), buckets, communicator);
    double power = 0;
    const auto gradient = sample_gradient(large_layout(), communicator.rank(), 0);
    for (int step = 0; step < steps; ++step) {
      auto values = gradient;
      average_all(*aggregator, buckets, values, step, communicator);
      for (const float value : values) power += static_cast<double>(value) * value / steps;
    }
    double bytes = static_cast<double>(communicator.traffic().bytes_sent) / steps;
    communicator.all_reduce({&bytes, 1}, ReduceOp::max);
    if (communicator.rank() == 0) exchanged = {bytes, power};
  });
  return exchanged;
}

Forecast forecast(const std::string& method, int ranks) {
  const auto buckets = plan_buckets(large_layout(), 1U << 18);
  Forecast found;
  run_threads(ranks, 20s, [&](Communicator& communicator) {
    const Recipe recipe = read_recipe(method);
    AggregatorParts parts;
    parts.memory = make_memory(recipe.memory, {buckets, ranks});
    parts.codec = make_codec(recipe.stages);
    parts.buckets = buckets;
    parts.rank = communicator.rank();
    parts.ranks = ranks;
    GatheredStep step(parts);
    const auto gather = make_aggregator(aggregator_table().choose("gather"), parts);
    auto values = sample_gradient(large_layout(), communicator.rank(), 0);
    Timings timings;
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      EXPECT_FALSE(step.complete());
      const Key key{5, static_cast<std::uint16_t>(communicator.rank()), 0, 0};
      Bucket bucket{std::span(values).subspan(buckets[b].range.begin, buckets[b].range.size()), &buckets[b].layout,
                    static_cast<std::uint16_t>(b)};
      const std::uint64_t before = communicator.traffic().bytes_sent;
      gather->average(bucket, key, {}, communicator, timings);
      step.add(bucket, key, communicator.traffic().bytes_sent - before);
    }
    EXPECT_TRUE(step.complete());
    const Forecast all = step.forecast(communicator);
    if (communicator.rank() == 0) found = all;
  });
  return found;
}

TEST(GatheredStep, ForeseesWhatScatterReduceSends) {
  for (const char* method : {"int8", "qsgd(bits=4) | rans", "terngrad", "ef | topk(0.05)", "f32 | zstd"}) {
    for (const int ranks : {2, 3, 5}) {
      const Forecast found = forecast(method, ranks);
      EXPECT_NEAR(found.gather, exchange("gather", method, ranks, 1).bytes, 0.01 * found.gather) << method;
      EXPECT_NEAR(found.scatter_reduce, exchange("scatter_reduce", method, ranks, 1).bytes, 0.03 * found.scatter_reduce)
          << method << ", ranks " << ranks;
    }
  }
}

// For an unbiased codec, E|result|^2 = |mean|^2 + variance with either aggregator, so the ratio of the two is the ratio
// of steps. The forecast is one draw of that ratio, with a standard deviation of up to 5 %.
TEST(GatheredStep, ForeseesTheVarianceOfTheSecondEncoding) {
  for (const char* method : {"atomo(25%)", "qsgd(bits=2)", "terngrad(clip=0)", "atomo(5%)"}) {
    const double grown = exchange("scatter_reduce", method, 5, 6).power / exchange("gather", method, 5, 6).power;
    EXPECT_NEAR(forecast(method, 5).steps, grown, 0.15 * grown) << method;
  }
  EXPECT_NEAR(forecast("f32 | zstd", 3).steps, 1, 1e-9);
}

// For a selection, the forecast is 1 / (share of |mean|^2 that the selection keeps). A mean of zeros loses nothing; a
// mean that the codec cannot encode is lost whole.
TEST(GatheredStep, ForeseesWhatASelectionDropsAndWhatCannotBeEncoded) {
  EXPECT_GT(forecast("topk(0.01)", 5).steps, 1.5);
  EXPECT_LT(forecast("topk(0.9)", 5).steps, 1.1);
  Layout layout;
  layout.append("w", {64});
  for (const float value : {0.0F, 1.0F, std::numeric_limits<float>::infinity()}) {
    run_threads(2, 20s, [&](Communicator& communicator) {
      AggregatorParts parts;
      parts.memory = make_memory({}, {});
      parts.codec = make_codec(read_stages("int8"));
      parts.buckets = plan_buckets(layout, 1U << 20);
      parts.rank = communicator.rank();
      parts.ranks = 2;
      GatheredStep step(parts);
      std::vector<float> values(layout.size(), value);
      step.add({values, &parts.buckets[0].layout, 0}, {}, 100);
      const double steps = step.forecast(communicator).steps;
      EXPECT_EQ(steps, value > 1 ? std::numeric_limits<double>::infinity() : 1) << value;
    });
  }
}

// In one step, or in several, as where each exchanges a share of them. A copy of the state forgets nothing; one bucket
// several times is not all of them.
TEST(Auto, ChoosesWhenItHasSeenAllBuckets) {
  const auto buckets = plan_buckets(large_layout(), 1U << 16);
  ASSERT_GT(buckets.size(), 2U);
  run_threads(4, 20s, [&](Communicator& communicator) {
    const auto aggregator = make_aggregator(read_recipe("int8"), buckets, communicator);
    const auto average = [&](std::size_t b, std::uint32_t step, float bad = 0) {
      auto values = sample_gradient(large_layout(), communicator.rank(), 0);
      Bucket bucket{std::span(values).subspan(buckets[b].range.begin, buckets[b].range.size()), &buckets[b].layout,
                    static_cast<std::uint16_t>(b)};
      bucket.values[0] += bad;
      Timings timings;
      aggregator->average(bucket, {5, static_cast<std::uint16_t>(communicator.rank()), 0, step}, {}, communicator,
                          timings);
    };
    for (std::size_t b = 1; b + 1 < buckets.size(); ++b) average(b, 7);
    for (std::size_t i = 0; i < buckets.size(); ++i) average(1, 8);
    EXPECT_EQ(aggregator->remark(), "");
    average(0, 9);
    EXPECT_THROW(average(buckets.size() - 1, 10, std::numeric_limits<float>::infinity()), NumericError);
    state_of(*aggregator);
    EXPECT_EQ(aggregator->remark(), "");
    average(buckets.size() - 1, 11);
    EXPECT_EQ(aggregator->name(), "scatter_reduce") << aggregator->remark();
  });
}

// A resumed run takes the choice from the checkpoint, and ends with the same bits as an uninterrupted run.
TEST(Auto, TheChoiceIsPartOfTheState) {
  const auto buckets = plan_buckets(large_layout(), 1U << 18);
  for (const int ranks : {2, 5}) {
    run_threads(ranks, 20s, [&](Communicator& communicator) {
      const auto whole = make_aggregator(read_recipe("ef | int8"), buckets, communicator);
      const auto resumed = make_aggregator(read_recipe("ef | int8"), buckets, communicator);
      for (int step = 0; step < 4; ++step) {
        auto values = sample_gradient(large_layout(), communicator.rank(), step);
        auto same = values;
        average_all(*whole, buckets, values, step, communicator);
        if (step == 1) {
          test::restore(*resumed, state_of(*whole));
          EXPECT_EQ(resumed->name(), ranks == 5 ? "scatter_reduce" : "gather");
          EXPECT_EQ(resumed->remark(), whole->remark());
        }
        if (step <= 1) continue;
        average_all(*resumed, buckets, same, step, communicator);
        EXPECT_EQ(values, same);
      }
      EXPECT_EQ(state_of(*whole), state_of(*resumed));
      test::State bad = state_of(*whole);
      bad.numbers.at("auto/choice") = 3;
      EXPECT_THROW(test::restore(*resumed, bad), FileError);
    });
  }
}

// When scatter_reduce takes over, it keeps what gather had not sent.
TEST(Auto, TheMemoryGoesAlong) {
  const auto buckets = plan_buckets(large_layout(), 1U << 18);
  run_threads(5, 20s, [&](Communicator& communicator) {
    const auto chosen = make_aggregator(read_recipe("ef | int8"), buckets, communicator);
    const auto gather = make_aggregator(read_recipe("ef | int8", "gather"), buckets, communicator);
    auto values = sample_gradient(large_layout(), communicator.rank(), 0);
    auto same = values;
    average_all(*chosen, buckets, values, 0, communicator);
    average_all(*gather, buckets, same, 0, communicator);
    EXPECT_EQ(chosen->name(), "scatter_reduce");
    EXPECT_EQ(values, same);
    EXPECT_EQ(state_of(*chosen).floats.at("memory.ef"), state_of(*gather).floats.at("memory.ef"));
  });
}

}  // namespace
}  // namespace sotto
