// Stages that are not in the table, to check that the interface allows what future stages may need: a transform with
// rows of several floats, a selection that draws at random and scales, and quantisers whose symbols vary in size with
// the values or that need an agreement of the ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "sotto/codec/chain.h"
#include "sotto/codec/quantise/cast.h"
#include "sotto/codec/quantise/qsgd.h"
#include "sotto/codec/select/topk.h"
#include "sotto/core/error.h"
#include "sotto/kernels/bits.h"
#include "sotto/kernels/reduce.h"
#include "tests/codec/fixture.h"
#include "tests/codec/odd_rows.h"
#include "tests/codec/odd_symbols.h"
#include "tests/support/opened.h"

namespace sotto::testing {
namespace {

Input normal_input() { return {"gaussian", mixed_layout(), gaussian(mixed_layout(), 20)}; }

std::unique_ptr<Codec> chain(bool transform, std::unique_ptr<Select> select, bool quantised = false,
                             bool coded = false) {
  Stages stages;
  if (transform) stages.transform = std::make_unique<Butterfly>();
  stages.select = std::move(select);
  if (quantised) {
    stages.quantise = std::make_unique<Qsgd>(QsgdOptions{});
  } else {
    stages.quantise = std::make_unique<F32>(NoOptions{});
  }
  if (coded) stages.code = std::make_unique<EqualRuns>();
  return std::make_unique<Chain>(StageSpecs(), std::move(stages));
}

TEST(StageInterface, ATransformGoesThereAndBack) {
  const Input input = normal_input();
  const auto codec = chain(true, nullptr);
  const auto decoded = decode(*chain(true, nullptr), input, encode(*codec, input), 2);
  for (std::size_t i = 0; i < decoded.size(); ++i) EXPECT_NEAR(decoded[i], 2 * input.values[i], 1e-6);
  EXPECT_FALSE(codec->traits().linear_type.has_value());
}

TEST(StageInterface, RowsAreSelectedByTheirEnergy) {
  const Input input = normal_input();
  TopKOptions options;
  options.ratio = 0.2;
  options.dense = "0";
  const auto codec = chain(true, std::make_unique<TopK>(options));
  const auto message = encode(*codec, input);
  EXPECT_LE(message.size(), codec->max_bytes(input.layout, {0, input.layout.size()}));
  const auto decoded = decode(*codec, input, message);
  for (const Segment& segment : input.layout.segments()) {
    const std::size_t n = segment.numel();
    std::vector<std::pair<float, std::size_t>> energies;
    for (std::size_t i = 0; i < n; i += 2) {
      const float* x = input.values.data() + segment.offset + i;
      energies.emplace_back(-std::hypot(x[0], i + 1 < n ? x[1] : 0.0F), i);
    }
    std::sort(energies.begin(), energies.end());
    const auto kept = static_cast<std::size_t>(std::ceil(0.2 * static_cast<double>(energies.size())));
    for (std::size_t j = 0; j < energies.size(); ++j) {
      for (std::size_t i = energies[j].second; i < std::min(energies[j].second + 2, n); ++i) {
        EXPECT_NEAR(decoded[segment.offset + i], j < kept ? input.values[segment.offset + i] : 0.0F, 1e-6);
      }
    }
  }
}

TEST(StageInterface, ScaledSelectionsStayUnbiasedBehindAQuantiser) {
  const Input input = normal_input();
  for (const bool transform : {false, true}) {
    const auto codec = chain(transform, std::make_unique<Coin>(), true);
    const Contract contract = codec->contract(input.layout);
    EXPECT_EQ(contract.kind, Contract::Kind::unbiased);
    constexpr int draws = 400;
    std::vector<double> mean(input.values.size());
    double variance = 0;
    for (std::uint32_t t = 0; t < draws; ++t) {
      const auto decoded = decode(*codec, input, encode(*codec, input, {.step = t}));
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += decoded[i] / static_cast<double>(draws);
      variance += square_distance(decoded, input.values) / draws;
    }
    EXPECT_LE(variance, contract.omega * square_norm(input.values));
    double error = 0;
    for (std::size_t i = 0; i < mean.size(); ++i) error += std::pow(mean[i] - input.values[i], 2);
    EXPECT_LE(error, 1.5 * variance / draws);
  }
}

TEST(StageInterface, ATransformPassesOnWhatIsNotFinite) {
  Input input = normal_input();
  input.values[140] = NAN;  // in a.weight
  for (const bool select : {false, true}) {
    const auto codec = chain(true, select ? std::make_unique<TopK>(TopKOptions()) : nullptr);
    EXPECT_THROW(encode(*codec, input), NumericError);
  }
}

// Everything that is not a symbol goes uncoded before the symbols: the index list, then the side information.
TEST(StageInterface, ACodeOfSymbolsSeesNothingElse) {
  Input input = normal_input();
  const Segment& zeros = input.layout.segments()[3];
  std::fill_n(input.values.begin() + static_cast<std::ptrdiff_t>(zeros.offset), zeros.numel(), 0.0F);
  for (const bool transform : {false, true}) {
    for (const bool select : {false, true}) {
      const auto some = [&] { return select ? std::make_unique<Coin>() : nullptr; };
      const auto codec = chain(transform, some(), true, true);
      const auto plain = encode(*chain(transform, some(), true), input);
      const auto coded = encode(*codec, input);
      const auto header = MessageView::parse(coded).header();
      EXPECT_EQ(header.flags & 2, 2);
      EXPECT_LT(coded.size(), plain.size());
      EXPECT_EQ(decode(*chain(transform, some(), true, true), input, coded),
                decode(*chain(transform, some(), true), input, plain));

      const auto old_body = MessageView::parse(plain).body(), new_body = MessageView::parse(coded).body();
      std::uint32_t list = 0;
      if (select) std::memcpy(&list, old_body.data(), sizeof(list));
      const std::size_t head = select ? sizeof(list) : 0;
      EXPECT_TRUE(std::ranges::equal(old_body.first(head), new_body.first(head)));
      EXPECT_TRUE(std::ranges::equal(old_body.last(list), new_body.subspan(head, list)));
      const std::size_t sides = std::size_t{4} * 6;  // one norm for each segment that is not empty
      EXPECT_TRUE(std::ranges::equal(old_body.subspan(head, sides), new_body.subspan(head + list, sides)));

      // No truncation is accepted, nor an additional byte.
      for (std::size_t size = 0; size <= new_body.size() + 1; ++size) {
        if (size == new_body.size()) continue;
        Message cut;
        const auto room = cut.begin(size);
        std::ranges::copy(new_body.first(std::min(size, new_body.size())), room.begin());
        if (size > new_body.size()) room.back() = std::byte{0};
        cut.finish(header, size);
        EXPECT_THROW(test::opened(*codec, cut.view(), input.layout, {0, input.layout.size()}), WireError) << size;
      }
    }
  }
}

TEST(StageInterface, ACodeOfSymbolsThatSavesNothingIsLeftOut) {
  const Input input = normal_input();
  const auto codec = chain(false, nullptr, true, true);
  const auto message = encode(*codec, input);
  EXPECT_EQ(MessageView::parse(message).header().flags, 0);
  EXPECT_LE(message.size(), codec->max_bytes(input.layout, {0, input.layout.size()}));
  EXPECT_EQ(decode(*codec, input, message),
            decode(*chain(false, nullptr, true), input, encode(*chain(false, nullptr, true), input)));
}

std::unique_ptr<Codec> quantised_by(std::unique_ptr<Quantise> quantise, std::unique_ptr<Select> select = nullptr,
                                    int threads = 1) {
  Stages stages;
  stages.select = std::move(select);
  stages.quantise = std::move(quantise);
  return std::make_unique<Chain>(StageSpecs(), std::move(stages), std::make_shared<ThreadPool>(threads, 8));
}

std::unique_ptr<Codec> trimmed(bool select = false, int threads = 1) {
  return quantised_by(std::make_unique<Trimmed>(),
                      select ? std::make_unique<TopK>(TopKOptions{{"0"}, 0.3, "segment"}) : nullptr, threads);
}

TEST(StageInterface, SymbolsOfAWholeMayBeAsManyBytesAsItsValuesWant) {
  for (const Input& input : all_inputs()) {
    for (const bool select : {false, true}) {
      const auto codec = trimmed(select);
      const auto message = encode(*codec, input);
      EXPECT_LE(message.size(), codec->max_bytes(input.layout, {0, input.layout.size()}));
      EXPECT_EQ(encode(*trimmed(select, 3), input), message) << input.name;
      const auto decoded = decode(*trimmed(select, 3), input, message, -2);
      for (std::size_t i = 0; i < decoded.size(); ++i) {
        EXPECT_TRUE(decoded[i] == -2 * input.values[i] || (select && decoded[i] == 0)) << input.name << " " << i;
      }
    }
  }
  Layout layout;
  layout.append("two", {20});
  layout.append("none", {3});
  layout.append("four", {5});
  Input input{"sizes", layout, std::vector<float>(layout.size())};
  for (std::size_t i = 0; i < 20; ++i) input.values[i] = 0.25F * static_cast<float>(i);
  for (std::size_t i = 0; i < 5; ++i) input.values[layout.segments()[2].offset + i] = 0.1F;
  EXPECT_EQ(encode(*trimmed(), input).size(), sizeof(Header) + 3 * 4 + 20 * 2 + 0 + 5 * 4);
}

TEST(StageInterface, ACodeSeesBytesWhereSymbolsAreNotOfOneWidth) {
  Layout layout;
  layout.append("equal", {300});
  layout.append("many", {40});
  Input input{"runs", layout, gaussian(layout, 27)};
  std::fill_n(input.values.begin(), 300, 0.0F);
  const auto coded = [](std::unique_ptr<Quantise> quantise) {
    Stages stages;
    stages.quantise = std::move(quantise);
    stages.code = std::make_unique<EqualRuns>();
    return std::make_unique<Chain>(StageSpecs(), std::move(stages));
  };
  const auto expect_there_and_back = [&](const auto& make) {
    const auto message = encode(*coded(make()), input);
    EXPECT_EQ(MessageView::parse(message).header().flags, 2);
    EXPECT_EQ(decode(*coded(make()), input, message),
              decode(*quantised_by(make()), input, encode(*quantised_by(make()), input)));
  };
  expect_there_and_back([] { return std::make_unique<Thirds>(); });
  std::fill_n(input.values.begin(), 300, std::bit_cast<float>(0x43434343U));
  expect_there_and_back([] { return std::make_unique<Trimmed>(); });
}

TEST(StageInterface, SizesThatAMessageSaysAreChecked) {
  const Layout layout({{"a", 0, {3}}, {"b", 3, {2}}}, 5);
  const Input input{"sizes", layout, {1, 2, 3, 0.1F, 0.2F}};  // 2 bytes a value in one segment, 4 in the other
  const auto codec = trimmed();
  const auto message = encode(*codec, input);
  const MessageView view = MessageView::parse(message);
  std::vector<std::byte> body(view.body().begin(), view.body().end());
  ASSERT_EQ(body.size(), 8U + 3 * 2 + 2 * 4);
  for (const std::uint32_t bytes : {0U, 1U, 3U, 4U, 5U, 6U, 0xFFFFFFFFU}) {
    kernels::store(body.data(), 0, bytes);
    Message forged;
    std::ranges::copy(body, forged.begin(body.size()).begin());
    forged.finish(view.header(), body.size());
    std::vector<float> out(5);
    EXPECT_THROW(add_part(*codec, layout, {0, 5}, forged.bytes(), 1, out), WireError) << bytes;
    EXPECT_EQ(square_norm(out), 0);
  }
}

TEST(StageInterface, EncodingUsesWhatAllRanksAgreedOn) {
  const Layout layout({{"a", 0, {40}}, {"b", 40, {7}}}, 47);
  const Input input{"gaussian", layout, gaussian(layout, 26)};
  std::vector<float> values = input.values;
  const Bucket bucket{values, &layout, 0};
  const auto codec = quantised_by(std::make_unique<Thirds>());
  ASSERT_EQ(codec->agreed_count(layout), 4U);
  std::vector<float> numbers(4);
  codec->propose(bucket, numbers);
  const auto most = [&](Range range) {
    return std::bit_cast<float>(kernels::max_abs_bits(std::span(values).subspan(range.begin, range.size())));
  };
  EXPECT_EQ(numbers, (std::vector<float>{-1, most({0, 40}), -1, most({40, 47})}));

  numbers[1] = 5;  // from another rank
  numbers[3] = 8;
  const std::vector<Range> parts{{0, 40}, {40, 47}};
  std::vector<Message> messages(2);
  codec->encode(bucket, {}, numbers, parts, messages);
  std::vector<float> out(47);
  for (std::size_t i = 0; i < 2; ++i) {  // the decoding instance took part in no agreement
    add_part(*quantised_by(std::make_unique<Thirds>(), nullptr, 3), layout, parts[i], messages[i].bytes(), 1, out);
  }
  for (std::size_t i = 0; i < 47; ++i) {
    const float step = i < 40 ? 2.5F : 4;
    EXPECT_EQ(out[i], step * static_cast<float>(std::lround(values[i] / step))) << i;
  }

  EXPECT_THROW(codec->encode(bucket, {}, {}, parts, messages), std::logic_error);
  numbers[3] = NAN;
  try {
    codec->encode(bucket, {.step = 3}, numbers, parts, messages);
    FAIL() << "no number";
  } catch (const NumericError& error) {
    EXPECT_NE(std::string(error.what()).find("agreed on for b is not finite at step 3"), std::string::npos);
  }
}

}  // namespace
}  // namespace sotto::testing
