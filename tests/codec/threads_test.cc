// Neither the bytes of a message nor the decoded values depend on the number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "sotto/codec/select/candidates.h"
#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "sotto/core/random.h"
#include "sotto/kernels/reduce.h"
#include "tests/codec/fixture.h"

namespace sotto::testing {
namespace {

// Thread pools of several sizes, with tasks of `grain` elements. Codecs share them, as the codecs of a rank do.
std::vector<std::shared_ptr<ThreadPool>> all_workers(std::size_t grain) {
  std::vector<std::shared_ptr<ThreadPool>> pool;
  for (const int threads : {1, 2, 3, 5}) pool.push_back(std::make_shared<ThreadPool>(threads, grain));
  return pool;
}

// Makes two steps, since some codecs start from their last state. In a sample, codecs take turns with the pools.
void expect_the_same(const std::string& expression, const Input& input,
                     std::span<const std::shared_ptr<ThreadPool>> all) {
  static std::size_t turn = 0;
  if (is_sample) all = all.subspan(turn++ % all.size(), 1);
  SCOPED_TRACE(expression + ", " + input.name);
  const auto reference = make_codec(read_stages(expression));
  std::vector<std::unique_ptr<Codec>> codecs;
  for (const auto& pool : all) codecs.push_back(make_codec(read_stages(expression), pool));
  for (std::uint32_t step = 0; step < 2; ++step) {
    const Key key{.seed = 21, .rank = 1, .step = step};
    const auto message = encode(*reference, input, key, 3);
    const auto decoded = decode(*reference, input, message, 0.7F);
    for (std::size_t i = 0; i < codecs.size(); ++i) {
      ASSERT_EQ(encode(*codecs[i], input, key, 3), message) << all[i]->threads() << " threads";
      ASSERT_EQ(decode(*codecs[i], input, message, 0.7F), decoded) << all[i]->threads() << " threads";
    }
  }
}

// Tasks have so few elements that several threads share even short vectors.
TEST(Threads, MakeTheSameMessages) {
  const auto pool = all_workers(8);
  std::vector<Input> inputs;
  for (const Input& input : all_inputs()) {
    if (input.values.size() > 1 && input.name != "largest") inputs.push_back(input);
  }
  const auto expressions = all_codecs();
  // Each codec gets one of the inputs in turn, so that neighbours in the list, which differ in one stage, have
  // different inputs.
  for (std::size_t i = 0; i < expressions.size(); ++i) {
    expect_the_same(expressions[i], inputs[i % inputs.size()], pool);
    expect_the_same(expressions[i], {"gaussian", mixed_layout(), gaussian(mixed_layout(), i)}, pool);
    if (HasFailure()) return;
  }
}

// Lengths around the borders of tasks, and of the chunks that sums are made of, in their real sizes.
TEST(Threads, MakeTheSameMessagesOfLongVectors) {
  constexpr auto chunk = static_cast<std::int64_t>(kernels::sum_chunk);
  const auto pool = all_workers(ThreadPool::default_grain);
  Layout layout;
  layout.append("long", {3 * chunk + 77});
  layout.append("short", {5, 9});
  layout.append("whole", {2 * chunk});
  const Input input{"long", layout, gaussian(layout, 22)};
  for (const char* expression : {"f32",
                                 "f16",
                                 "bf16",
                                 "sign",
                                 "sign(block=100)",
                                 "int8",
                                 "int8(stochastic=true)",
                                 "uint8",
                                 "uint8(block=100, stochastic=true)",
                                 "int4",
                                 "qsgd(bits=4)",
                                 "qsgd(bits=2, bucket=100000, norm=l2)",
                                 "terngrad",
                                 "terngrad(clip=0)",
                                 "terngrad(pack=trits)",
                                 "terngrad(bits=4)",
                                 "terngrad(shared=true)",
                                 "fp8",
                                 "fp8(e5m2, block=100)",
                                 "natural",
                                 "adaptive",
                                 "adaptive(error=0.02, bucket=1000)",
                                 "topk(0.02) | adaptive(error=0.1)",
                                 "alq(bits=4, bucket=1000)",
                                 "zipml",
                                 "clusters",
                                 "clusters(c=3, decode=centre)",
                                 "quantile",
                                 "quantile | minmax_sketch",
                                 "threshold(2.5)",
                                 "threshold(0)",
                                 "threshold(relative=0.7)",
                                 "sampled_topk(0.01)",
                                 "sampled_topk(0.3)",
                                 "sampled_topk(0.1, scope=bucket)",
                                 "topk(0.01)",
                                 "topk(0.4)",
                                 "topk(0.02, scope=bucket) | sign",
                                 "atomo(s=1%)",
                                 "atomo(s=60%)",
                                 "atomo(s=2%, p=truncate)",
                                 "atomo(p=l2)",
                                 "atomo(p=max) | qsgd",
                                 "atomo(s=1%, p=uniform)",
                                 "topk(0.01) | qsgd(bits=4) | zstd",
                                 "qsgd(bits=4) | rans",
                                 "qsgd(bits=8) | rans(segment)",
                                 "terngrad | rans(adaptive)",
                                 "f32 | rans",
                                 "f16 | huffman",
                                 "qsgd(bits=2, norm=l2) | elias",
                                 "int8 | blosc",
                                 "randomk(0.01)",
                                 "randomk(0.2, shared=false) | qsgd",
                                 "block(100, 0.05)",
                                 "block(1000, 0.05, shared) | f16",
                                 "count_sketch | f16",
                                 "count_min(3, 10000, 1%)",
                                 "dct(64) | topk(0.05)"}) {
    expect_the_same(expression, input, pool);
    if (HasFailure()) return;
  }
}

// Of many equal elements only some are sent: the first ones, whichever thread finds them.
TEST(Threads, SelectTheSameOfEqualOnes) {
  const auto pool = all_workers(8);
  const Layout layout({{"a", 0, {5000}}, {"b", 5000, {3}}, {"c", 5003, {4997}}}, 10000);
  Input input{"ties", layout, std::vector<float>(10000)};
  for (std::size_t i = 0; i < 10000; ++i) input.values[i] = static_cast<float>(i * 7919 % 10) - 5.0F;
  for (const char* expression :
       {"topk(0.05)", "topk(0.15)", "topk(0.33, scope=bucket)", "sampled_topk(0.05)", "threshold(5)", "atomo(s=30%)"}) {
    expect_the_same(expression, input, pool);
  }
}

TEST(Threads, NameTheFirstSegmentThatIsNotFinite) {
  for (const auto& pool : all_workers(8)) {
    for (const char* expression : {"f32", "int8", "sign", "terngrad", "topk(0.5)", "atomo(s=50%)"}) {
      Input input{"bad", borrowed_layout(), gaussian(borrowed_layout(), 10)};
      for (const std::size_t at : {30, 50, 60}) input.values[at] = NAN;
      try {
        encode(*make_codec(read_stages(expression), pool), input);
        ADD_FAILURE() << "was accepted";
      } catch (const NumericError& error) {
        EXPECT_EQ(std::string(error.what()).substr(0, 6), "second") << expression;
      }
    }
  }
}

TEST(Threads, MakeTheSameLinearForms) {
  Layout layout;
  layout.append("w", {10007});
  const Input input{"gaussian", layout, gaussian(layout, 23)};
  for (const char* expression :
       {"f32", "f16", "bf16", "dct(64) | bf16", "randomk(0.3)", "block(9, 0.3, shared) | f16", "count_sketch(5, 3%)"}) {
    std::vector<float> expected;
    for (const auto& pool : all_workers(64)) {
      const auto codec = make_codec(read_stages(expression), pool);
      std::vector<float> values = input.values;
      Bucket bucket{values, &layout, 0};
      std::vector<std::byte> linear(codec->linear_count(layout) * size_of(*codec->traits().linear_type));
      codec->to_linear(bucket, 0.25F, {}, linear);
      codec->from_linear(linear, 3, {}, bucket);
      if (expected.empty()) expected = values;
      EXPECT_EQ(values, expected) << expression << ", " << pool->threads() << " threads";
      values[9999] = INFINITY;
      EXPECT_THROW(codec->to_linear(bucket, 0.25F, {}, linear), NumericError);
    }
  }
}

TEST(Ranking, CountsWhatIsLargerAndAsLarge) {
  for (const auto& pool : all_workers(8)) {
    Philox random(24, Purpose::test);
    for (const std::uint32_t range : {1U, 3U, 1000U, 1U << 31}) {
      std::vector<std::uint32_t> numbers(1 + random.below(300));
      for (std::uint32_t& number : numbers) number = random.below(range);
      auto sorted = numbers;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      for (std::size_t rank = 1; rank <= numbers.size(); ++rank) {
        const Ranked ranked = rank_largest(*pool, numbers, rank);
        const std::uint32_t value = sorted[rank - 1];
        EXPECT_EQ(ranked.value, value);
        EXPECT_EQ(ranked.larger, std::count_if(sorted.begin(), sorted.end(), [&](auto n) { return n > value; }));
        EXPECT_EQ(ranked.equal, std::count(sorted.begin(), sorted.end(), value));
      }
    }
  }
}

}  // namespace
}  // namespace sotto::testing
