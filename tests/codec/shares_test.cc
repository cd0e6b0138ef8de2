// What a message consists of: MessageReader::add_shares().
#include <numeric>

#include "tests/codec/laws.h"

namespace sotto::testing {
namespace {

struct Shares {
  std::vector<std::size_t> segments;
  std::int64_t together = 0;
  std::int64_t sum() const {
    return std::accumulate(segments.begin(), segments.end(), together,
                           [](std::int64_t all, std::size_t some) { return all + static_cast<std::int64_t>(some); });
  }
};

Shares shares_of(Codec& codec, const Input& input) {
  const auto message = encode(codec, input);
  const auto opened = codec.make_opened();
  opened->open(MessageView::parse(message), input.layout, {0, input.layout.size()});
  Shares shares{std::vector<std::size_t>(input.layout.segments().size())};
  shares.together = opened->add_shares(shares.segments);
  EXPECT_EQ(shares.sum(), static_cast<std::int64_t>(message.size()));
  return shares;
}

// A tensor of 1000 values of which every 50th is not zero, one of 3000 zeros, and one of 2000 values that all differ.
Input three_tensors() {
  Input input{"three tensors", {}, {}};
  input.layout.append("sparse", {1000});
  input.layout.append("zero", {30, 100});
  input.layout.append("full", {20, 100});
  input.values.resize(input.layout.size());
  for (std::size_t i = 0; i < 1000; i += 50) input.values[i] = 1.0F + static_cast<float>(i);
  const std::size_t full = input.layout.segments()[2].offset;
  for (std::size_t i = 0; i < 2000; ++i)
    input.values[full + i] = static_cast<float>(static_cast<int>(i * 7919 % 2001) - 1000) / 8;
  return input;
}

TEST(Shares, AreExactWithoutACode) {
  const Input input = three_tensors();
  const auto shares = [&](const std::string& expression) { return shares_of(*fresh(expression), input); };
  EXPECT_EQ(shares("f32").segments, (std::vector<std::size_t>{4000, 12000, 8000}));
  EXPECT_EQ(shares("f32").together, 32) << "the header";
  // Blocks of 512 with a norm each; 5 bits a value.
  EXPECT_EQ(shares("qsgd(bits=4, bucket=512)").segments, (std::vector<std::size_t>{8 + 625, 24 + 1875, 16 + 1250}));
  EXPECT_EQ(shares("qsgd(bits=4, bucket=512)").together, 32);
  // A selection has a list, of which a tensor takes its own indices; the length of the list belongs to all.
  const auto top = shares("topk(count=20, dense=0) | f16");
  EXPECT_EQ(top.together, 32 + 4);
  EXPECT_EQ(top.segments[1], 0U) << "zeros are not sent";
  for (const std::size_t bytes : {top.segments[0], top.segments[2]}) {
    EXPECT_GE(bytes, 20U * 2 + 10) << "20 values with their indices";
    EXPECT_LE(bytes, 20U * 2 + 40);
  }
  const auto all = shares("topk(count=20, scope=bucket, dense=0) | f16");
  EXPECT_EQ(all.segments[1], 0U) << "no zero is among the 20 largest";
  // Blocks are listed, not their elements: 20 of 10 elements each.
  const auto block = shares("block(ratio=0.1, size=10, dense=0)");
  EXPECT_EQ(block.segments[1], 0U);
  EXPECT_GE(block.segments[2], 4U * 200 + 5);
  EXPECT_LE(block.segments[2], 4U * 200 + 40);
  // One unit for all: shared out by the number of values, its tables belong to all.
  const auto pooled = shares("clusters(c=2, buckets=40, raw=5, scope=bucket)");
  EXPECT_EQ(pooled.segments, (std::vector<std::size_t>{250, 750, 500}));
  EXPECT_EQ(pooled.together, 32 + 4 * 2 + 40 * 4);
}

TEST(Shares, OfACodeOfSymbolsAreWhatEachTensorAdds) {
  const Input input = three_tensors();
  for (const std::string code : {"rans", "rans(model=segment)", "rans(model=adaptive)", "huffman", "elias"}) {
    SCOPED_TRACE(code);
    const Shares plain = shares_of(*fresh("int8"), input), coded = shares_of(*fresh("int8 | " + code), input);
    EXPECT_LT(coded.sum(), plain.sum());
    EXPECT_GE(coded.together, 32) << "the header, and tables";
    EXPECT_LT(coded.together, 32 + 700);
    EXPECT_LT(coded.segments[1], code.starts_with("huff") ? 500U : 400U) << "3000 zeros, and 12 units of 4 bytes";
    EXPECT_GT(coded.segments[2], 3 * coded.segments[0]) << "values that all differ cost most";
    // A tensor that follows changes nothing in an encoding without tables.
    if (code == "elias") {
      Input first{"the first tensor", {}, {}};
      first.layout.append("sparse", {1000});
      first.values.assign(input.values.begin(),
                          input.values.begin() + static_cast<std::ptrdiff_t>(first.layout.size()));
      const Shares alone = shares_of(*fresh("int8 | " + code), first);
      EXPECT_NEAR(static_cast<double>(alone.segments[0]), static_cast<double>(coded.segments[0]), 2);
    }
  }
}

TEST(Shares, OfOtherCodesAreThoseBeforeTheCode) {
  const Input input = three_tensors();
  for (const std::string code : {"zstd", "lz4", "blosc"}) {
    SCOPED_TRACE(code);
    const Shares plain = shares_of(*fresh("int8"), input), coded = shares_of(*fresh("int8 | " + code), input);
    EXPECT_EQ(coded.segments, plain.segments);
    EXPECT_LT(coded.together, 0) << "what it saves";
  }
}

TEST(Shares, OfEveryCodecAddUpAndDisturbNothing) {
  for_all([](const std::string& expression) {
    const auto codec = fresh(expression);
    const std::string& canonical = codec->traits().text;
    const auto clusters = canonical.find("clusters(");
    const bool pools = clusters != std::string::npos && canonical.find("scope=bucket", clusters) != std::string::npos;
    for (const Input& input : all_inputs()) {
      std::vector<std::byte> message;
      try {
        message = encode(*codec, input);
      } catch (const NumericError&) {
        continue;
      }
      const auto opened = codec->make_opened();
      const auto view = MessageView::parse(message);
      opened->open(view, input.layout, {0, input.layout.size()});
      std::vector<std::size_t> segments(input.layout.segments().size());
      const std::int64_t together = opened->add_shares(segments);
      const auto sum = std::accumulate(segments.begin(), segments.end(), std::size_t{0});
      EXPECT_EQ(static_cast<std::int64_t>(sum) + together, static_cast<std::int64_t>(message.size())) << input.name;
      // Without a code only the header, a seed, lengths, heads and rounding of Rice's code, and common tables are left.
      if ((view.header().flags & 2U) == 0) {
        EXPECT_GE(together, 32) << input.name;
        if (!pools) {
          EXPECT_LE(together, 32 + 8 + 2 * 4 + 2 * (5 + 2)) << input.name << ": at most two lists in Rice's code";
        }
      }
      std::vector<float> decoded(input.values.size());
      Bucket out{decoded, &input.layout};
      opened->add_to(out, 1);
      EXPECT_EQ(decoded, decode(*codec, input, message)) << input.name;
    }
  });
}

}  // namespace
}  // namespace sotto::testing
