#include "sotto/aggregate/auto.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sotto/core/error.h"
#include "tests/aggregate/group.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::average_all, test::sample_gradient, test::sample_layout, test::state_of;

std::vector<BucketPlan> sample_buckets() { return plan_buckets(sample_layout(), 1200); }

struct Choice {
  std::string first, then, remark;
};

// What `auto` takes in the first step, and from then on; the same on every rank.
Choice choice(int ranks, const std::string& method, const Layout& layout = sample_layout()) {
  const auto buckets = plan_buckets(layout, 1200);
  std::vector<Choice> choices(static_cast<std::size_t>(ranks));
  run_threads(ranks, 20s, [&](Communicator& communicator) {
    const auto aggregator = make_aggregator("test", "auto", method, buckets, communicator);
    Choice& mine = choices[static_cast<std::size_t>(communicator.rank())];
    mine.first = aggregator->name();
    // Ranks have messages of different sizes, and must agree all the same.
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
      const Choice found = choice(ranks, method);
      EXPECT_EQ(found.first, "all_reduce");
      EXPECT_EQ(found.then, "all_reduce");
      EXPECT_EQ(found.remark.empty(), ranks == 1);
    }
  }
}

TEST(Auto, GathersUntilScatterReduceHalvesTheBytes) {
  for (const char* method : {"qsgd(bits=4)", "ef | threshold(2.0)", "ef | int8", "ef | f16 | zstd"}) {
    for (const int ranks : {1, 2, 3, 4}) {
      const Choice found = choice(ranks, method);
      EXPECT_EQ(found.then, "gather") << method << ", ranks " << ranks;
      EXPECT_EQ(found.remark.find("aggregator: gather, ") == 0, ranks > 1) << found.remark;
    }
  }
  for (const char* method : {"ef | int8", "f32 | zstd"}) {
    const Choice found = choice(9, method);
    EXPECT_EQ(found.first, "gather") << method;
    EXPECT_EQ(found.then, "scatter_reduce") << method;
    EXPECT_NE(found.remark.find("aggregator: scatter_reduce, "), std::string::npos) << found.remark;
  }
}

// Chunks of whole segments leave all of nine ranks but one without any; regions are cut where entries are.
TEST(Auto, BalancesWhatChunksWouldNot) {
  Layout layout;
  layout.append("w", {200, 100});
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

TEST(Auto, ForeseesWhatScatterReduceSends) {
  for (const char* method : {"int8", "qsgd(bits=4, bucket=64)", "sign(block=16)", "f32 | zstd"}) {
    for (const int ranks : {2, 3, 5}) {
      std::vector<double> sent(static_cast<std::size_t>(ranks));
      double foreseen = 0;
      run_threads(ranks, 20s, [&](Communicator& communicator) {
        const auto buckets = sample_buckets();
        AggregatorParts parts;
        parts.codec = make_codec("test", method);
        parts.buckets = buckets;
        parts.ranks = ranks;
        std::vector<double> bytes;
        auto values = sample_gradient(sample_layout(), communicator.rank(), 0);
        for (const BucketPlan& plan : buckets) {
          const Range whole{0, plan.layout.size()};
          Message message;
          parts.codec->encode({std::span(values).subspan(plan.range.begin, plan.range.size()), &plan.layout, 0}, {}, {},
                              {&whole, 1}, {&message, 1});
          bytes.push_back(static_cast<double>(message.bytes().size()));
        }
        if (communicator.rank() == 0) foreseen = scatter_reduce_bytes(parts, bytes);
        const auto aggregator = make_aggregator("test", "scatter_reduce", method, buckets, communicator);
        average_all(*aggregator, buckets, values, 0, communicator);
        sent[static_cast<std::size_t>(communicator.rank())] = static_cast<double>(communicator.traffic().bytes_sent);
      });
      EXPECT_NEAR(foreseen, *std::ranges::max_element(sent), 0.05 * foreseen) << method << ", ranks " << ranks;
    }
  }
}

// A resumed run takes the choice of the checkpoint, and ends with the bits of the run that it continues.
TEST(Auto, TheChoiceIsPartOfTheState) {
  const auto buckets = sample_buckets();
  for (const int ranks : {3, 9}) {
    run_threads(ranks, 20s, [&](Communicator& communicator) {
      const auto whole = make_aggregator("test", "auto", "ef | int8", buckets, communicator);
      const auto resumed = make_aggregator("test", "auto", "ef | int8", buckets, communicator);
      for (int step = 0; step < 4; ++step) {
        auto values = sample_gradient(sample_layout(), communicator.rank(), step);
        auto same = values;
        average_all(*whole, buckets, values, step, communicator);
        if (step == 1) {
          test::restore(*resumed, state_of(*whole));
          EXPECT_EQ(resumed->name(), ranks == 9 ? "scatter_reduce" : "gather");
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

// What gather had not sent when scatter_reduce took over is still there.
TEST(Auto, TheMemoryGoesAlong) {
  const auto buckets = sample_buckets();
  run_threads(9, 20s, [&](Communicator& communicator) {
    const auto chosen = make_aggregator("test", "auto", "ef | int8", buckets, communicator);
    const auto gather = make_aggregator("test", "gather", "ef | int8", buckets, communicator);
    auto values = sample_gradient(sample_layout(), communicator.rank(), 0);
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
