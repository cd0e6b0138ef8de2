// Laws that every memory of the table keeps, and what is special about each.
#include "sotto/aggregate/memory/memory.h"
#include "sotto/aggregate/recipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <ranges>
#include <string>
#include <vector>

#include "sotto/aggregate/presets.h"
#include "sotto/core/error.h"
#include "tests/aggregate/group.h"
#include "tests/aggregate/mirror.h"
#include "tests/support/opened.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::average_all, test::message_of, test::sample_gradient, test::sample_layout, test::sample_rate;

// Memories that hold back what was not sent, and the names of the vectors that they offer.
const std::map<std::string, std::string> offered_by{
    {"ef", "memory.ef"},
    {"memsgd", "memory.memsgd"},
    {"demo", "memory.demo"},
    {"demo(0.9)", "memory.demo"},
    {"momentum", "memory.momentum.v"},
    {"momentum(m=0.5, nesterov=true)", "memory.momentum.v"},
    {"momentum(masking=false)", "memory.momentum.v"},
    {"momentum(clip=3)", "memory.momentum.v"},
};

// These, and the ones that hold nothing back.
std::vector<std::string> all_memories() {
  std::vector<std::string> all{"velocity", "velocity(0.5)"};
  std::ranges::copy(offered_by | std::views::keys, std::back_inserter(all));
  return all;
}

TEST(Memories, AreAllHere) {
  for (const MemoryEntry& entry : memory_table()) {
    const auto has_name = [&](const std::string& expression) { return expression.starts_with(entry.name); };
    EXPECT_TRUE(std::ranges::any_of(all_memories(), has_name)) << entry.name;
    EXPECT_EQ(entry.holds, std::ranges::any_of(offered_by | std::views::keys, has_name)) << entry.name;
  }
}

TEST(Memories, SayEveryOptionInTheirCanonicalText) {
  for (const std::string& expression : all_memories()) {
    const std::string canonical = memory_table().read("codec", expression).text();
    EXPECT_EQ(memory_table().read("codec", canonical).text(), canonical);
  }
  EXPECT_EQ(read_recipe("momentum(0.8) | topk(1%)").text().substr(0, 66),
            "momentum(m=0.8, nesterov=false, masking=true, clip=0, mean=false) ");
}

// test_warmup.py checks the warnings about codecs that diverge. Here are codecs that must cause none, and others that
// must cause one.
TEST(Memories, AreWantedBySelectionsAndDoubtedBeforeCodecsThatExpand) {
  const auto buckets = plan_buckets(sample_layout(), 1U << 20);
  for (const Preset& preset : preset_table()) {
    EXPECT_EQ(warning_about(read_recipe(preset.name), buckets), "") << preset.name;
  }
  for (const char* method : {"randomk(0.6, unbiased=true, dense=0)", "ef | randomk(0.51, unbiased=true, dense=0)",
                             "ef | count_sketch", "memsgd | natural", "qsgd", "int8", "signs", "topk(0.6)",
                             "ef | qsgd(bits=4)", "demo | sign", "ef | topk(0.01) | qsgd(bits=1)",
                             "velocity | qsgd(bits=1)", "velocity | randomk(0.01, unbiased=true, dense=0)"}) {
    EXPECT_EQ(warning_about(read_recipe(method), buckets), "") << method;
  }
  for (const char* method : {"topk(0.01)", "topk | qsgd", "sampled_topk", "randomk(0.01)"}) {
    EXPECT_NE(warning_about(read_recipe(method), buckets).find("a memory sends it later: ef | "), std::string::npos)
        << method;
  }
  for (const std::string method : {"randomk(0.01, unbiased=true, dense=0)", "atomo(s=5%)", "dct(8) | atomo(s=1%)"}) {
    EXPECT_NE(warning_about(read_recipe(method), buckets).find("the optimiser then has none: velocity | " + method),
              std::string::npos)
        << method;
  }
  for (const char* method : {"ef", "ef | f32 | zstd"}) {
    EXPECT_NE(warning_about(read_recipe(method), buckets).find("all is sent, so `ef` holds nothing back"),
              std::string::npos);
  }
  EXPECT_NE(warning_about(read_recipe("velocity | topk(1%)"), buckets).find(": momentum | topk("), std::string::npos);
  for (const auto& [memory, name] : offered_by) {
    EXPECT_NE(warning_about(read_recipe(memory + " | randomk(0.5, unbiased=true, dense=0)"), buckets), "") << memory;
  }
}

// The exchange of one bucket, as a memory sees it.
struct Exchange {
  Layout layout = sample_layout();
  std::vector<BucketPlan> buckets = plan_buckets(layout, 1U << 20);
  std::unique_ptr<Codec> codec;
  std::unique_ptr<Memory> memory;
  Message message;
  std::unique_ptr<MessageReader> sent_message;  // made by send()
  std::vector<float> values;

  Exchange(const std::string& memory_text, const std::string& codec_text, int ranks = 1)
      : codec(make_codec(read_stages(codec_text))),
        memory(make_memory(memory_table().read("codec", memory_text), {buckets, ranks})) {}

  Bucket gradient(int step, int rank = 0) {
    values = sample_gradient(layout, rank, step);
    return {values, &layout, 0};
  }
  static Key key(int step) { return {3, 0, 0, static_cast<std::uint32_t>(step)}; }
  Bucket prepare(int step) {
    return memory->prepare(gradient(step), {static_cast<std::uint64_t>(step), sample_rate(step)}, {});
  }

  // Encodes `prepared`; returns the values that the others decode.
  std::vector<float> send(const Bucket& prepared, int step) {
    const Range whole{0, prepared.values.size()};
    codec->encode(prepared, key(step), {}, {&whole, 1}, {&message, 1});
    std::vector<float> sent(prepared.values.size());
    Bucket out{sent, &layout, 0};
    sent_message = test::opened(*codec, message.view(), layout, whole);
    sent_message->add_to(out, 1);
    return sent;
  }

  // A whole step; returns what was sent.
  std::vector<float> step(int number) {
    Bucket prepared = prepare(number);
    auto sent = send(prepared, number);
    memory->settle(prepared, *sent_message);
    return sent;
  }
  std::vector<float> state(const std::string& name) { return test::state_of(*memory).floats.at(name); }
};

// Nothing is lost and nothing is added: offered = sent + kept.
TEST(Memories, KeepWhatOfTheOfferedWasNotSent) {
  for (const auto& [expression, name] : offered_by) {
    for (const char* codec : {"topk(0.05)", "topk(0.2) | qsgd(bits=4)", "sign(block=64)", "threshold(0.7) | f16",
                              "dct(8) | topk(0.1)", "f32"}) {
      Exchange exchange(expression, codec);
      for (int step = 0; step < 6; ++step) {
        Bucket prepared = exchange.prepare(step);
        const std::vector<float> offered(prepared.values.begin(), prepared.values.end());
        EXPECT_EQ(exchange.state(name), offered);
        const auto sent = exchange.send(prepared, step);
        exchange.memory->settle(prepared, *exchange.sent_message);
        const auto kept = exchange.state(name);
        for (std::size_t i = 0; i < kept.size(); ++i) {
          // Rows of a transform are added one after the other, so the last bit may differ.
          ASSERT_NEAR(kept[i], offered[i] - sent[i], 4e-6 * (std::abs(offered[i]) + std::abs(sent[i])) + 1e-6)
              << expression << " | " << codec << ", step " << step;
        }
      }
    }
  }
}

// All gradients that came in are in what was sent or in what is held, each with the factor that the memory's paper
// gives it.
TEST(Memories, AccumulateAsTheirPapersSay) {
  const int steps = 8;
  for (const char* expression : {"ef", "memsgd", "demo(0.9)", "momentum(m=0.8, masking=false)",
                                 "momentum(m=0.8, nesterov=true, masking=false)"}) {
    Exchange exchange(expression, "topk(0.05) | f16");
    const std::string memory(expression);
    const std::size_t size = exchange.layout.size();
    std::vector<double> wanted(size), velocity(size), sent(size);
    for (int step = 0; step < steps; ++step) {
      const auto part = exchange.step(step);
      const auto gradient = sample_gradient(exchange.layout, 0, step);
      const bool in_rates = memory == "memsgd";
      for (std::size_t i = 0; i < size; ++i) {
        const double g = gradient[i];
        if (memory.starts_with("demo")) {
          wanted[i] = 0.9 * (wanted[i] - sent[i]) + g;  // held, before it is sent
          sent[i] = part[i];
          continue;
        }
        sent[i] += (in_rates ? sample_rate(step) : 1) * part[i];
        if (memory.starts_with("momentum")) {
          const bool nesterov = memory.find("nesterov") != std::string::npos;
          velocity[i] = nesterov ? 0.8 * (velocity[i] + g) : 0.8 * velocity[i] + g;
          wanted[i] += velocity[i] + (nesterov ? g : 0);
        } else {
          wanted[i] += (in_rates ? sample_rate(step) : 1) * g;
        }
      }
    }
    const auto held = exchange.state(offered_by.at(memory.starts_with("momentum") ? "momentum"
                                                   : memory.starts_with("demo")   ? "demo"
                                                                                  : memory));
    const double unit = memory == "memsgd" ? sample_rate(steps - 1) : 1;
    for (std::size_t i = 0; i < size; ++i) {
      ASSERT_NEAR(sent[i] + unit * held[i], wanted[i], 2e-5) << expression << " " << i;
    }
  }
}

TEST(Memories, TakeOverWhatAnotherHeld) {
  for (const auto& [expression, name] : offered_by) {
    Exchange exchange(expression, "topk(0.05)");
    exchange.step(0);
    const auto before = exchange.state(name);
    std::vector<float> owed(before.size(), 0.5F);
    exchange.memory->hold({owed, &exchange.layout, 0});
    const auto after = exchange.state(name);
    for (std::size_t i = 0; i < before.size(); ++i) ASSERT_EQ(after[i], before[i] + 0.5F) << expression;
  }
}

// The first step succeeds and the second fails. The memory is then as it was after prepare(), and the bucket as it was
// before.
TEST(Memories, LoseNothingInAFailedExchange) {
  const Layout layout = sample_layout();
  const auto buckets = plan_buckets(layout, 1U << 20);
  for (const std::string& expression : all_memories()) {
    for (const auto& [aggregator, codec] :
         std::vector<std::pair<std::string, std::string>>{{"gather", "topk(0.05)"}, {"all_reduce", "f16"}}) {
      bool broken = false;
      test::Mirror mirror(3, [&](std::span<std::byte>) {
        if (broken) throw CommError("the cable is out");
      });
      const auto whole = make_aggregator(read_recipe(expression + " | " + codec, aggregator), buckets, mirror);
      auto values = sample_gradient(layout, 0, 0);
      average_all(*whole, buckets, values, 0, mirror);
      const auto twin = make_memory(memory_table().read("codec", expression), {buckets, 3});
      test::restore(*twin, test::state_of(*whole));
      values = sample_gradient(layout, 0, 1);
      broken = true;
      EXPECT_THROW(average_all(*whole, buckets, values, 1, mirror), CommError);
      EXPECT_EQ(values, sample_gradient(layout, 0, 1));
      twin->prepare({values, &layout, 0}, {1, sample_rate(1)}, {});
      EXPECT_EQ(test::state_of(*whole), test::state_of(*twin)) << expression << ", " << aggregator;
    }
  }
}

TEST(Memories, ResumeToTheLastBit) {
  const auto buckets = plan_buckets(sample_layout(), 1200);
  for (const std::string& expression : all_memories()) {
    EXPECT_TRUE(test::resumes(3, "gather", expression + " | topk(0.05) | qsgd(bits=4)", buckets)) << expression;
    EXPECT_TRUE(test::resumes(3, "scatter_reduce", expression + " | topk(0.05)", buckets)) << expression;
    EXPECT_TRUE(test::resumes(3, "all_reduce", expression + " | f16", buckets)) << expression;
    const std::string last = expression.starts_with("velocity") ? " | terngrad" : " | power(1)";
    EXPECT_TRUE(test::resumes(3, "auto", expression + last, buckets)) << expression;
  }
}

TEST(MemSgd, WithOneRateIsErrorFeedback) {
  Exchange inside("memsgd", "topk(0.05)");
  Exchange outside("ef", "topk(0.05)");
  for (int step = 0; step < 10; step += 2) EXPECT_EQ(inside.step(step), outside.step(step));
}

TEST(MemSgd, RefusesAStepWithoutARate) {
  Exchange exchange("memsgd", "topk(0.05)");
  const auto text = message_of([&] { exchange.memory->prepare(exchange.gradient(0), {.number = 7}, {}); });
  EXPECT_NE(text.find("at step 7"), std::string::npos) << text;
  EXPECT_NE(text.find("use a schedule of rates above 0, or `ef`"), std::string::npos) << text;
}

// Where every step sends everything, momentum in each rank's memory equals momentum after averaging, with masking or
// without.
TEST(Momentum, OfWhatIsSentWholeIsMomentumAfterAveraging) {
  const Layout layout = sample_layout();
  const auto buckets = plan_buckets(layout, 1200);
  const int ranks = 4;
  for (const std::string memory : {"momentum(0.7)", "momentum(0.7, nesterov=true)", "velocity(0.7)"}) {
    const bool nesterov = memory.find("nesterov") != std::string::npos;
    for (const char* codec : {"f32", "f32()", "bf16", "topk(1)", "sampled_topk(1)", "randomk(1)", "block(4, 1)"}) {
      const double tolerance = std::string(codec) == "bf16" ? 0.1 : 1e-5;
      run_threads(ranks, 20s, [&](Communicator& communicator) {
        const auto aggregator = make_aggregator(
            read_recipe(memory + " | " + codec, tolerance > 0.01 ? "gather" : "auto"), buckets, communicator);
        std::vector<double> buffer(layout.size());
        for (int step = 0; step < 8; ++step) {
          auto values = sample_gradient(layout, communicator.rank(), step);
          average_all(*aggregator, buckets, values, step, communicator);
          std::vector<double> mean(layout.size());
          for (int rank = 0; rank < ranks; ++rank) {
            const auto gradient = sample_gradient(layout, rank, step);
            for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += gradient[i] / static_cast<double>(ranks);
          }
          for (std::size_t i = 0; i < mean.size(); ++i) {
            buffer[i] = 0.7 * buffer[i] + mean[i];
            ASSERT_NEAR(values[i], nesterov ? mean[i] + 0.7 * buffer[i] : buffer[i], tolerance) << memory << codec;
          }
        }
      });
    }
  }
}

TEST(Momentum, StopsWhereASelectionChoseAndNowhereElse) {
  for (const char* codec : {"topk(0.05)", "topk(0.05) | qsgd(bits=1)", "sign", "dct(8) | topk(0.05)"}) {
    for (const bool masking : {true, false}) {
      Exchange exchange(masking ? "momentum" : "momentum(masking=false)", codec);
      Bucket prepared = exchange.prepare(0);
      exchange.send(prepared, 0);
      std::vector<float> marks(prepared.values.size(), 1);
      Bucket marked{marks, &exchange.layout, 0};
      exchange.sent_message->clear_chosen(marked);
      const bool selects = std::string(codec).starts_with("topk");
      EXPECT_EQ(std::ranges::count(marks, 0.0F) > 0, selects) << codec;
      const auto before = exchange.state("memory.momentum.u");
      exchange.memory->settle(prepared, *exchange.sent_message);
      const auto after = exchange.state("memory.momentum.u");
      for (std::size_t i = 0; i < before.size(); ++i) {
        ASSERT_EQ(after[i], masking ? before[i] * marks[i] : before[i]) << codec << " " << i;
      }
    }
  }
}

// A segment whose norm is above clip / sqrt(ranks) is scaled down to that norm; all others stay as they are.
TEST(Momentum, ClipsEachSegmentByItself) {
  for (const int ranks : {1, 4}) {
    Exchange exchange("momentum(clip=9)", "topk(0.05)", ranks);
    const double limit = 9 / std::sqrt(static_cast<double>(ranks));
    const auto prepared = exchange.prepare(0);
    const auto gradient = sample_gradient(exchange.layout, 0, 0);
    int clipped = 0;
    for (const Segment& segment : exchange.layout.segments()) {
      double square = 0;
      for (std::size_t i = 0; i < segment.numel(); ++i) square += std::pow(gradient[segment.offset + i], 2);
      const double scale = std::min(1.0, limit / std::sqrt(square));
      clipped += scale < 1 ? 1 : 0;
      for (std::size_t i = 0; i < segment.numel(); ++i) {
        ASSERT_NEAR(prepared.values[segment.offset + i], scale * gradient[segment.offset + i], 1e-6) << segment.name;
      }
    }
    EXPECT_GT(clipped, 0);
    EXPECT_LT(clipped, 4);
  }
}

// What was sent does not change what is offered next, whether a codec draws or selects.
TEST(Velocity, IsTheMomentumOfTheGradientsAlone) {
  for (const char* codec : {"terngrad", "topk(0.05)", "f32"}) {
    Exchange exchange("velocity(0.8)", codec);
    std::vector<double> wanted(exchange.layout.size());
    for (int step = 0; step < 5; ++step) {
      exchange.step(step);
      const auto offered = exchange.state("memory.velocity");
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        wanted[i] = 0.8 * wanted[i] + exchange.values[i];
        ASSERT_NEAR(offered[i], wanted[i], 1e-5) << codec << step;
      }
    }
  }
}

}  // namespace
}  // namespace sotto
