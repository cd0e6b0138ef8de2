// Laws that every stage keeps, over all combinations of the table's stages and all inputs. A new stage is tested by
// being in the table, and in more combinations by being in listed_sentences(): the first test here sees to it that it
// is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "tests/codec/fixture.h"

namespace sotto::testing {
namespace {

// Rounding in single precision, and where results are denormal.
double tolerance(const Input& input) {
  return 2e-6 * square_norm(input.values) + static_cast<double>(input.values.size()) * 0x1p-266;
}

void expect_clean_padding(const Input& input, const std::vector<float>& out) {
  std::vector<float> cleared = out;
  input.layout.clear_padding(cleared);
  EXPECT_EQ(out, cleared) << input.name;
}

// Holds for every sentence.
void for_all(const std::function<void(const std::string& sentence)>& law) {
  for (const std::string& sentence : all_sentences()) {
    SCOPED_TRACE(sentence);
    law(sentence);
  }
}

// What is said of the stages that are listed.
bool ranks_draw_alike(const std::string& sentence) {
  return sentence.find("shared)") != std::string::npos || sentence.find("shared,") != std::string::npos ||
         (sentence.find("randomk") != std::string::npos && sentence.find("shared=false") == std::string::npos);
}
bool differs_by_rank(const std::string& sentence) {
  const auto has = [&](const char* part) { return sentence.find(part) != std::string::npos; };
  return has("qsgd") || has("terngrad") || has("natural") || sentence.starts_with("adaptive") || has("| adaptive") ||
         has("stochastic=true") || has("atomo") || has("exact=1)") || has("shared=false") || has("random,");
}

std::unique_ptr<Codec> fresh(const std::string& sentence) { return make_codec("test", sentence); }

TEST(Sentences, HaveEveryStageOfTheTable) {
  const auto sentences = listed_sentences();
  for (const StageEntry& stage : stage_table()) {
    EXPECT_TRUE(std::any_of(sentences.begin(), sentences.end(), [&](const std::string& sentence) {
      const auto calls = parse_sentence("test", make_codec("test", sentence)->sentence()).calls;
      return std::ranges::find(calls, stage.name, &Call::name) != calls.end();
    })) << stage.name;
  }
}

TEST(Laws, CanonicalSentenceMakesTheSameCodec) {
  for_all([](const std::string& sentence) {
    const auto codec = fresh(sentence);
    EXPECT_EQ(make_codec("test", codec->sentence())->sentence(), codec->sentence());
  });
}

TEST(Laws, AnotherInstanceDecodesWithinTheContract) {
  for_all([](const std::string& sentence) {
    const auto codec = fresh(sentence);
    for (const Input& input : all_inputs()) {
      const Contract contract = codec->contract(input.layout);
      std::vector<std::byte> message;
      try {
        message = encode(*codec, input);
      } catch (const NumericError&) {
        EXPECT_FALSE(fits(sentence, input)) << input.name;
        continue;
      }
      EXPECT_LE(message.size(), codec->max_bytes(input.layout, {0, input.layout.size()})) << input.name;
      const auto decoded = decode(*fresh(sentence), input, message);
      EXPECT_TRUE(std::all_of(decoded.begin(), decoded.end(), [](float x) { return std::isfinite(x); })) << input.name;
      expect_clean_padding(input, decoded);
      if (contract.kind == Contract::Kind::exact) {
        EXPECT_EQ(decoded, input.values) << input.name;
      }
      if (contract.kind == Contract::Kind::rounding) {
        EXPECT_LE(square_distance(decoded, input.values), 1e-10 * square_norm(input.values) + tolerance(input))
            << input.name;
      }
      if (contract.kind == Contract::Kind::contraction && !is_stochastic(sentence)) {
        EXPECT_GT(contract.delta, 0);
        EXPECT_LE(contract.delta, 1);
        EXPECT_LE(square_distance(decoded, input.values),
                  (1 - contract.delta) * square_norm(input.values) + tolerance(input))
            << input.name;
      }
    }
  });
}

TEST(Laws, DecodingAddsTimesScale) {
  for_all([](const std::string& sentence) {
    const auto codec = fresh(sentence);
    const Input input{"gaussian", mixed_layout(), gaussian(mixed_layout(), 2)};
    const auto message = encode(*codec, input);
    const auto once = decode(*codec, input, message);
    std::vector<float> out = gaussian(input.layout, 3);
    const std::vector<float> before = out;
    add_part(*codec, input.layout, {0, input.layout.size()}, message, -0.5F, out);
    for (std::size_t i = 0; i < out.size(); ++i) {
      // Of several terms, each is added on its own.
      const float expected = before[i] + -0.5F * once[i];
      EXPECT_NEAR(out[i], expected, transforms(sentence) ? 1e-5 : 0) << i;
    }
  });
}

TEST(Laws, BytesDependOnTheKeyAlone) {
  for_all([](const std::string& sentence) {
    if (is_warm(sentence)) return;  // on what went before, too: transform_test.cc
    const Input input{"gaussian", mixed_layout(), gaussian(mixed_layout(), 4)};
    const Key key{.seed = 5, .rank = 1, .generation = 0, .step = 6};
    const auto codec = fresh(sentence);
    const auto message = encode(*codec, input, key);
    EXPECT_EQ(encode(*codec, input, key), message);  // buffers that were used before
    EXPECT_EQ(encode(*fresh(sentence), input, key), message);
  });
}

// Bodies of other seeds, ranks, steps and buckets differ just when there is chance in them.
TEST(Laws, ChanceIsOfEverythingInTheKey) {
  for (const std::string& sentence : listed_sentences()) {
    SCOPED_TRACE(sentence);
    if (is_warm(sentence)) continue;
    const bool alike = ranks_draw_alike(sentence), by_rank = differs_by_rank(sentence);
    const Input input{"gaussian", mixed_layout(), gaussian(mixed_layout(), 4)};
    const auto body = [&](const Key& key, std::uint16_t bucket) {
      const auto bytes = encode(*fresh(sentence), input, key, bucket);
      return std::vector<std::byte>(bytes.begin() + sizeof(Header), bytes.end());
    };
    const auto first = body({5, 1, 0, 6}, 0);
    EXPECT_EQ(body({6, 1, 0, 6}, 0) != first, alike || by_rank);
    EXPECT_EQ(body({5, 1, 0, 7}, 0) != first, alike || by_rank);
    EXPECT_EQ(body({5, 1, 0, 6}, 1) != first, alike || by_rank);
    EXPECT_EQ(body({5, 2, 0, 6}, 0) != first, by_rank);
  }
}

TEST(Laws, MeanOfManyDrawsFindsTheInput) {
  for_all([](const std::string& sentence) {
    const auto codec = fresh(sentence);
    const Input input{"gaussian", borrowed_layout(), gaussian(borrowed_layout(), 7)};
    const Contract contract = codec->contract(input.layout);
    if (!is_stochastic(sentence)) {
      if (contract.kind == Contract::Kind::unbiased) {  // where there is nothing to draw
        EXPECT_LE(square_distance(decode(*codec, input, encode(*codec, input)), input.values),
                  1e-10 * square_norm(input.values));
      }
      return;
    }
    constexpr int draws = 300;
    std::vector<double> mean(input.values.size());
    double variance = 0, squares = 0;
    for (int t = 0; t < draws; ++t) {
      const auto decoded =
          decode(*codec, input, encode(*codec, input, {.seed = 8, .step = static_cast<std::uint32_t>(t)}));
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += decoded[i] / static_cast<double>(draws);
      const double distance = square_distance(decoded, input.values);
      variance += distance / draws;
      squares += distance * distance / draws;
    }
    const double norm = square_norm(input.values);
    // Four times the standard error of that variance: one sentence in 30000 is beyond it by chance.
    const double slack = 4 * std::sqrt(std::max(squares - variance * variance, 0.0) / draws) + tolerance(input);
    if (contract.kind == Contract::Kind::contraction) {
      EXPECT_LE(variance, (1 - contract.delta) * norm + slack);
    } else if (contract.kind == Contract::Kind::unbiased) {
      EXPECT_LE(variance, contract.omega * norm + slack);
      // |mean - x|^2 is variance/T on average, a sum of some eighty nearly independent terms: twice that is far out.
      double error = 0;
      for (std::size_t i = 0; i < mean.size(); ++i) error += (mean[i] - input.values[i]) * (mean[i] - input.values[i]);
      EXPECT_LE(error, 2 * variance / draws + tolerance(input));
    }
  });
}

// The distance of a mean of T draws from the input falls as 1/sqrt(T), as far as one likes: there is no bias below it.
TEST(Laws, TheErrorOfAMeanFallsWithTheRootOfTheDraws) {
  int unbiased = 0;
  for_all([&](const std::string& sentence) {
    const auto codec = fresh(sentence);
    const Input input{"gaussian", borrowed_layout(), gaussian(borrowed_layout(), 17)};
    if (codec->contract(input.layout).kind != Contract::Kind::unbiased) return;
    // Where there is nothing to draw.
    if (square_distance(decode(*codec, input, encode(*codec, input)), input.values) <= tolerance(input)) return;
    ++unbiased;
    std::uint32_t step = 0;
    const auto square_error = [&](int draws) {
      std::vector<double> mean(input.values.size());
      for (int t = 0; t < draws; ++t) {
        const auto decoded = decode(*codec, input, encode(*codec, input, {.seed = 18, .step = step++}));
        for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += decoded[i] / static_cast<double>(draws);
      }
      double error = 0;
      for (std::size_t i = 0; i < mean.size(); ++i) error += (mean[i] - input.values[i]) * (mean[i] - input.values[i]);
      return error;
    };
    // 80 nearly independent terms, of which those of the largest elements may count for most, so one error is known to
    // about a quarter: four are averaged. Where one atom is many elements there are only a few terms: there, sixteen
    // shorter means are.
    const int means = transforms(sentence) ? 16 : 4;
    const int few = transforms(sentence) ? 16 : 32;
    double of_few = 0, of_many = 0;
    for (int i = 0; i < means; ++i) {
      of_few += square_error(few);
      of_many += square_error(few * few);
    }
    const double ratio = std::sqrt(of_few / of_many);
    const double expected = std::sqrt(few);
    const double slack = transforms(sentence) ? 2 : 1.5;
    EXPECT_GT(ratio, expected / slack);
    EXPECT_LT(ratio, expected * slack);
  });
  EXPECT_GT(unbiased, 0);
}

TEST(Laws, WhatGoesAsItIsLeavesNothingBehind) {
  for_all([](const std::string& sentence) {
    const auto codec = fresh(sentence);
    if (codec->sentence().find("f32") == std::string::npos || transforms(sentence)) return;
    if (codec->contract(mixed_layout()).kind == Contract::Kind::unbiased) return;  // what goes is scaled
    for (const Input& input : all_inputs()) {
      const auto decoded = decode(*codec, input, encode(*codec, input));
      for (std::size_t i = 0; i < decoded.size(); ++i) {
        const float residual = input.values[i] - decoded[i];
        EXPECT_TRUE(residual == 0 || decoded[i] == 0) << input.name << " " << i;
      }
    }
  });
}

float largest(const std::vector<float>& values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

// What is sent and what a memory keeps are what there was, but for the rounding of the sums.
TEST(Laws, WhatIsSentAndWhatIsLeftMakeTheWhole) {
  for_all([](const std::string& sentence) {
    const auto codec = fresh(sentence);
    for (const Input& input : all_inputs()) {
      if (input.name == "largest") continue;
      const auto message = encode(*codec, input);
      const auto sent = decode(*codec, input, message);
      std::vector<float> left = input.values;
      add_part(*fresh(sentence), input.layout, {0, left.size()}, message, -1, left);
      // Rows of a transform are added one by one, the largest as well.
      const bool sums = transforms(sentence);
      const float all = sums ? largest(sent) + largest(input.values) : 0;
      for (std::size_t i = 0; i < left.size(); ++i) {
        const float most = sums ? 1e-5F * all : 1e-6F * (std::abs(sent[i]) + std::abs(input.values[i]));
        EXPECT_LE(std::abs(sent[i] + left[i] - input.values[i]), most) << input.name << " " << i;
      }
      expect_clean_padding(input, left);
    }
  });
}

// Borders of parts: those of segments, and further ones within them where the contract's grain allows it.
std::vector<Range> cut_at_grain(const Layout& layout, const Contract& contract) {
  std::vector<std::size_t> cuts{0};
  for (const Segment& segment : layout.segments()) {
    const std::size_t step = contract.grain == Contract::Grain::element ? 1
                             : contract.grain == Contract::Grain::block ? contract.block
                                                                        : segment.numel() + 1;
    for (std::size_t at = 0; at < std::max<std::size_t>(segment.numel(), 1); at += 3 * step) {
      cuts.push_back(segment.offset + at);
    }
  }
  cuts.push_back(layout.size());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<Range> parts;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) parts.push_back({cuts[i], cuts[i + 1]});
  return parts;
}

// What is not selected does not depend on where a bucket was cut; a selection keeps its promise in every part.
TEST(Laws, PartsCutAtTheGrainKeepTheContract) {
  for_all([](const std::string& sentence) {
    if (sentence.find("scope=bucket") != std::string::npos) return;  // selects over the whole message
    const auto codec = fresh(sentence);
    for (const Input& input : all_inputs()) {
      if (input.values.size() < 2 || !fits(sentence, input)) continue;
      const Contract contract = codec->contract(input.layout);
      const auto parts = cut_at_grain(input.layout, contract);
      const auto messages = encode_parts(*codec, input, parts);
      std::vector<float> out(input.values.size());
      for (std::size_t i = 0; i < parts.size(); ++i) {
        EXPECT_EQ(messages[i].view().header().part, i);
        EXPECT_LE(messages[i].bytes().size(), codec->max_bytes(input.layout, parts[i]));
        add_part(*fresh(sentence), input.layout, parts[i], messages[i].bytes(), 1, out);
      }
      if (!selects(sentence) && !transforms(sentence)) {
        EXPECT_EQ(out, decode(*codec, input, encode(*codec, input))) << input.name;
      } else if (contract.kind != Contract::Kind::none && !is_stochastic(sentence)) {
        for (const Range part : parts) {
          std::int64_t n = 0;  // without padding
          for (const Segment& segment : input.layout.segments()) {
            const Range range = segment.range();
            const std::size_t begin = std::max(part.begin, range.begin), end = std::min(part.end, range.end);
            if (begin < end) n += static_cast<std::int64_t>(end - begin);
          }
          const double delta = contract.grain == Contract::Grain::segment
                                   ? contract.delta
                                   : codec->contract({{{"part", 0, {1, n}}}, static_cast<std::size_t>(n)}).delta;
          const auto sent = std::span(out).subspan(part.begin, part.size());
          const auto given = std::span(input.values).subspan(part.begin, part.size());
          EXPECT_LE(square_distance(sent, given), (1 - delta) * square_norm(given) + tolerance(input)) << input.name;
        }
      }
    }
  });
}

TEST(Laws, AnEmptyPartIsAMessageToo) {
  for_all([](const std::string& sentence) {
    const auto codec = fresh(sentence);
    const Input input{"gaussian", mixed_layout(), gaussian(mixed_layout(), 9)};
    for (const Range part : {Range{0, 0}, Range{20, 20}, Range{108, 112}}) {  // the last one is padding only
      std::vector<float> out(input.values.size());
      add_part(*codec, input.layout, part, encode_part(*codec, input, part), 1, out);
      EXPECT_EQ(square_norm(out), 0);
    }
  });
}

TEST(Laws, ValuesThatAreNotFiniteNameTheirSegment) {
  for_all([](const std::string& sentence) {
    const auto codec = fresh(sentence);
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
      for (const auto& [element, name] : {std::pair{0, "first"}, {50, "third"}, {80, "fourth"}}) {
        Input input{"bad", borrowed_layout(), gaussian(borrowed_layout(), 10)};
        input.values[static_cast<std::size_t>(element)] = bad;
        try {
          encode(*codec, input, {.rank = 2, .step = 41});
          FAIL() << bad << " was accepted in " << name;
        } catch (const NumericError& error) {
          EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
          EXPECT_NE(std::string(error.what()).find("step 41"), std::string::npos) << error.what();
        }
        input.values[static_cast<std::size_t>(element)] = 1;
        EXPECT_NO_THROW(encode(*codec, input));  // the codec is none the worse for it
      }
    }
  });
}

TEST(Laws, LinearFormOfOrdinaryValuesKeepsTheContract) {
  for_all([](const std::string& sentence) {
    const auto codec = fresh(sentence);
    const Input input{"gaussian", mixed_layout(), gaussian(mixed_layout(), 11)};
    EXPECT_EQ(codec->linear_type().has_value(), codec->contract(input.layout).linear);
    if (!codec->linear_type()) {
      EXPECT_EQ(codec->linear_count(input.layout), 0U);
      return;
    }
    EXPECT_GT(codec->linear_count(input.layout), 0U);
    std::vector<float> values = input.values;
    std::vector<std::byte> linear(codec->linear_count(input.layout) * size_of(*codec->linear_type()));
    const Key key{.seed = 19, .rank = 1, .step = 3};
    codec->to_linear({values, &input.layout, 2}, 0.25F, key, linear);
    std::vector<float> out(values.size(), 5.0F);
    Bucket bucket{out, &input.layout, 2};
    fresh(sentence)->from_linear(linear, 4.0F, {.seed = 19, .rank = 2, .step = 3}, bucket);
    expect_clean_padding(input, out);
    const Contract contract = codec->contract(input.layout);
    if (!is_stochastic(sentence) && contract.kind != Contract::Kind::none) {
      const double kept = contract.kind == Contract::Kind::rounding ? 1e-10 : 1 - contract.delta;
      EXPECT_LE(square_distance(out, values), kept * square_norm(values));
    }
    // A message has the same values, in 16 bits with a unit beside them.
    EXPECT_LE(square_distance(out, decode(*codec, input, encode(*codec, input, key, 2))),
              0x1p-14 * square_norm(values));

    values[3] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THROW(codec->to_linear({values, &input.layout, 0}, 1, {}, linear), NumericError);
  });
}

TEST(Laws, SumsOfLinearFormsAreSumsOfMessages) {
  for_all([](const std::string& sentence) {
    const auto codec = fresh(sentence);
    if (codec->linear_type() != DType::f32 || !codec->additive()) return;
    const Layout layout = borrowed_layout();
    std::vector<float> sum(codec->linear_count(layout)), linear(sum.size());
    std::vector<float> wanted(layout.size()), out(layout.size());
    for (const std::uint16_t rank : {0, 1, 2}) {
      Input input{"of a rank", layout, gaussian(layout, 30 + rank)};
      const Key key{.seed = 20, .rank = rank, .step = 9};
      codec->to_linear({input.values, &layout, 1}, 1, key, std::as_writable_bytes(std::span(linear)));
      std::ranges::transform(sum, linear, sum.begin(), std::plus<>());
      add_part(*fresh(sentence), layout, {0, layout.size()}, encode(*codec, input, key, 1), 1, wanted);
    }
    Bucket bucket{out, &layout, 1};
    codec->from_linear(std::as_bytes(std::span(sum)), 1, {.seed = 20, .step = 9}, bucket);
    EXPECT_LE(square_distance(out, wanted), 1e-10 * square_norm(wanted));
  });
}

TEST(F16, RefusesToSumWhatDoesNotFit) {
  const auto codec = make_codec("test", "f16");
  const Layout layout({{"head", 0, {2}}, {"tail", 2, {2}}}, 4);
  std::vector<float> values{1, 2, 70000, 3};
  std::vector<std::byte> out(8);
  try {
    codec->to_linear({values, &layout, 0}, 1, {}, out);
    FAIL() << "70000 is no half";
  } catch (const NumericError& error) {
    EXPECT_NE(std::string(error.what()).find("tail does not fit f16"), std::string::npos) << error.what();
  }
  // Its half would fit, but not the sum of two halves.
  EXPECT_THROW(codec->to_linear({values, &layout, 0}, 0.5F, {}, out), NumericError);
  values[2] = 65504;
  EXPECT_NO_THROW(codec->to_linear({values, &layout, 0}, 0.5F, {}, out));
}

TEST(F16, TheSummedFormHasNoUnitForSmallValues) {
  const auto codec = make_codec("test", "f16");
  const Layout layout({{"w", 0, {4}}}, 4);
  const Input input{"small", layout, {1e-9F, -2e-8F, 1e-7F, 0.5F}};
  const auto exchanged =
      decode(*codec, {"small", layout, {1e-9F, 0, 0, 0}}, encode(*codec, {"small", layout, {1e-9F, 0, 0, 0}}));
  EXPECT_NEAR(exchanged[0], 1e-9F, 1e-12F);
  std::vector<float> values = input.values;
  std::vector<std::byte> linear(8);
  codec->to_linear({values, &layout, 0}, 1, {}, linear);
  Bucket bucket{values, &layout, 0};
  codec->from_linear(linear, 1, {}, bucket);
  EXPECT_EQ(values, (std::vector<float>{0, 0, 0x1p-23F, 0.5F}));
}

// The first k of the elements in descending order of magnitude, by a stable sort.
std::vector<float> top(const std::vector<float>& values, std::size_t k) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return std::abs(values[a]) > std::abs(values[b]); });
  std::vector<float> result(values.size());
  for (std::size_t j = 0; j < k; ++j) result[order[j]] = values[order[j]];
  return result;
}

TEST(TopK, SendsExactlyTheLargest) {
  // Long enough for counting into bins. Many are equal, of both signs, and shares end before, on and after a border
  // between magnitudes.
  const std::size_t n = 10000;
  const std::vector<std::function<float(std::size_t)>> kinds{
      [](std::size_t i) { return static_cast<float>((i * 7919) % 1000) - 500.0F; },
      [](std::size_t i) { return std::ldexp(i % 3 == 0 ? -1.0F : 1.0F, -static_cast<int>(i % 40)); },
      [](std::size_t i) { return i % 100 == 0 ? 1e-44F * static_cast<float>(i % 7) : 0.0F; },
      [](std::size_t) { return -2.0F; },
  };
  for (const auto& kind : kinds) {
    Input input{"ties", {{{"w", 0, {10000}}}, n}, std::vector<float>(n)};
    for (std::size_t i = 0; i < n; ++i) input.values[i] = kind(i);
    for (const std::size_t k : {1, 2, 249, 250, 251, 500, 501, 2500, 9999, 10000}) {
      for (const char* scope : {"segment", "bucket"}) {
        const auto codec =
            make_codec("test", "topk(" + std::to_string(static_cast<double>(k) / n) + ", " + scope + ", dense=0)");
        EXPECT_EQ(decode(*codec, input, encode(*codec, input)), top(input.values, k)) << k;
      }
    }
  }
}

TEST(Threshold, ReachesUpToTheLargestFloat) {
  constexpr float most = std::numeric_limits<float>::max();
  const Input input{"huge", {{{"w", 0, {4}}}, 4}, {3.1e38F, -3.3e38F, most, 1}};
  const auto sent = [&](const std::string& sentence) {
    const auto codec = make_codec("test", sentence);
    return decode(*codec, input, encode(*codec, input));
  };
  EXPECT_EQ(sent("threshold(3.2e38, dense=0)"), (std::vector<float>{0, -3.3e38F, most, 0}));
  EXPECT_EQ(sent("threshold(3.4028234663852886e38, dense=0)"), (std::vector<float>{0, 0, most, 0}));
  EXPECT_EQ(sent("threshold(1e39, dense=0)"), (std::vector<float>{0, 0, 0, 0}));
}

TEST(TopK, OfABucketIsTheLargestOfAllSegments) {
  const Layout layout({{"a", 0, {5000}}, {"b", 5000, {3}}, {"c", 5003, {4997}}}, 10000);
  const Input input{"bucket", layout, gaussian(layout, 15)};
  const auto codec = make_codec("test", "topk(0.05, scope=bucket, dense=0)");
  EXPECT_EQ(decode(*codec, input, encode(*codec, input)), top(input.values, 500));
}

TEST(TopK, RoundsTheShareUpButNotForRoundingErrors) {
  const auto kept = [](const std::string& sentence, std::int64_t n) {
    const Layout layout({{"w", 0, {1, n}}}, static_cast<std::size_t>(n));
    return std::lround(make_codec("test", sentence)->contract(layout).delta * static_cast<double>(n));
  };
  EXPECT_EQ(kept("topk(0.07)", 100), 7);
  EXPECT_EQ(kept("topk(0.01)", 100), 1);
  EXPECT_EQ(kept("topk(0.01)", 101), 2);
  EXPECT_EQ(kept("topk(0.001)", 5), 1);
  EXPECT_EQ(kept("topk(1)", 5), 5);
}

}  // namespace
}  // namespace sotto::testing
