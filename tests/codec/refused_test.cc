// Messages with a right checksum and one fault each; each must be refused for that fault.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "tests/codec/fixture.h"

namespace sotto::testing {
namespace {

class Refused : public ::testing::Test {
 protected:
  void expect_refused(const std::string& expression, const std::string& reason, std::uint8_t flags,
                      const std::vector<std::uint8_t>& bytes, std::size_t elements = 16) {
    const Input input{
        "w", {{{"w", 0, {1, static_cast<std::int64_t>(elements)}}}, elements}, std::vector<float>(elements, 1.0F)};
    const auto codec = make_codec(read_stages(expression));
    Header header = MessageView::parse(encode(*codec, input)).header();
    header.flags = flags;
    std::vector<std::byte> body(bytes.size());
    std::memcpy(body.data(), bytes.data(), bytes.size());
    try {
      decode(*codec, input, sealed(header, body));
      ADD_FAILURE() << expression << ": accepted, though " << reason;
    } catch (const WireError& error) {
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
  }
};

TEST_F(Refused, Flags) {
  expect_refused("f32", "unknown flags", 1, std::vector<std::uint8_t>(64));
  expect_refused("f32", "unknown flags", 2, std::vector<std::uint8_t>(64));
  for (const std::uint8_t flags : {4, 16, 32, 64, 128}) {
    expect_refused("threshold", "unknown flags", flags, {0, 0, 0, 0});
  }
}

TEST_F(Refused, Sizes) {
  expect_refused("f32", "63 bytes where 64", 0, std::vector<std::uint8_t>(63));
  expect_refused("f32", "65 bytes where 64", 0, std::vector<std::uint8_t>(65));
  expect_refused("topk(0.1)", "truncated length of the index list", 0, {0, 0, 0});
  expect_refused("topk(0.1)", "truncated index list", 0, {9, 0, 0, 0, 1, 1});
}

TEST_F(Refused, Indices) {
  expect_refused("threshold", "index 16 of 16 atoms", 0, {1, 0, 0, 0, 0, 0, 0, 0, 16});
  expect_refused("threshold", "truncated index list", 0, {1, 0, 0, 0, 0x80});
  expect_refused("threshold", "leading zeros", 0, {2, 0, 0, 0, 0x81, 0});
  expect_refused("threshold", "more than five bytes", 0, {6, 0, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 1});
  expect_refused("threshold", "bitmap of 1 bytes for 16 atoms", 1, {1, 0, 0, 0, 0});
  expect_refused("threshold", "index 12 of 12 atoms", 1, {2, 0, 0, 0, 0, 0x10}, 12);
  expect_refused("threshold", "index 16 of 16 atoms", 9, {2, 0, 0, 0, 0, 0, 0, 0, 16, 0});
  expect_refused("threshold", "a last byte without an index", 8, {6, 0, 0, 0, 0, 1, 0, 0, 0, 0});
  expect_refused("threshold", "index 16 of 16 atoms", 8, {7, 0, 0, 0, 3, 1, 0, 0, 0, 0, 4}, 16);
  expect_refused("topk(0.1)", "more than the 2 indices", 8, {6, 0, 0, 0, 0, 3, 0, 0, 0, 7});
  expect_refused("topk(0.1)", "more than the 2 indices", 0, {3, 0, 0, 0, 0, 0, 0});
  expect_refused("topk(0.1)", "more than the 2 indices", 1, {2, 0, 0, 0, 7, 0});
}

TEST_F(Refused, MoreOfASegmentThanItsShare) {
  const Input input{"two", {{{"a", 0, {2, 4}}, {"b", 8, {2, 4}}}, 16}, std::vector<float>(16, 1.0F)};
  const auto codec = make_codec(read_stages("topk(0.1)"));  // one element of each segment
  const Header header = MessageView::parse(encode(*codec, input)).header();
  std::vector<std::byte> body(4 + 8 + 2);
  body[0] = std::byte{2};  // indices 0 and 1
  EXPECT_THROW(decode(*codec, input, sealed(header, body)), WireError);
}

TEST_F(Refused, Values) {
  const std::vector<std::uint8_t> nan{0, 0, 0xC0, 0x7F}, minus{0, 0, 0x80, 0xBF}, three{0, 0, 0x40, 0x40};
  const auto with = [](std::vector<std::uint8_t> bytes, std::size_t size) {
    bytes.resize(size);
    return bytes;
  };
  expect_refused("f32", "not finite", 0, with(nan, 64));
  expect_refused("bf16", "not finite", 0, with({0x80, 0x7F}, 32));
  expect_refused("f16", "not finite", 0, with({0, 0, 0x80, 0x3F, 0, 0x7C}, 36));
  expect_refused("f16", "power of two", 0, with(three, 36));
  expect_refused("f16", "power of two", 0, with({}, 36));
  expect_refused("f16", "negative or not finite", 0, with(nan, 36));
  expect_refused("qsgd", "negative or not finite", 0, with(nan, 14));
  expect_refused("qsgd", "negative or not finite", 0, with(minus, 14));
  expect_refused("sign", "negative or not finite", 0, with(minus, 6));
  expect_refused("int8", "negative or not finite", 0, with(nan, 20));
  expect_refused("int8", "-128", 0, with({0, 0, 0x80, 0x3F, 0x80}, 20));
  expect_refused("uint8", "-0 or not finite", 0, with(nan, 24));
  expect_refused("uint8", "-0 or not finite", 0, with({0, 0, 0, 0, 0, 0, 0, 0x80}, 24));
  expect_refused("uint8", "above the largest", 0, with(three, 24));
  expect_refused("uint8", "in a block of equal values", 0, with({0, 0, 0x40, 0x40, 0, 0, 0x40, 0x40, 0, 1}, 24));
}

TEST_F(Refused, Clusters) {
  const auto body = [](std::vector<std::uint8_t> sizes, float mean, std::size_t symbols, std::uint8_t symbol) {
    std::vector<std::uint8_t> bytes(2 * sizes.size() + 4 * 8 + symbols, 0);
    for (std::size_t k = 0; k < sizes.size(); ++k) bytes[2 * k] = sizes[k];
    std::memcpy(&bytes[2 * sizes.size()], &mean, sizeof(mean));
    bytes[2 * sizes.size() + 4 * 8] = symbol;
    return bytes;
  };
  const std::string four = "clusters(c=2, buckets=8, least=2, raw=0)";
  expect_refused(four, "of 1 buckets, where each has 2 or more", 0, body({1, 3, 2, 2}, 0, 4, 0));
  expect_refused(four, "of 3 buckets, where each has 2 or more, and all have 8", 0, body({2, 2, 2, 3}, 0, 4, 0));
  expect_refused("clusters(c=2, buckets=9, least=2, raw=0)", "65 bytes", 0, std::vector<std::uint8_t>(65));
  expect_refused(four, "not of its cluster's side", 0, body({2, 2, 2, 2}, 1, 4, 0));
  expect_refused(four, "not of its cluster's side", 0, body({2, 2, 2, 2}, -0.0F, 4, 0));
  expect_refused(four, "not of its cluster's side", 0, body({2, 2, 2, 2}, -INFINITY, 4, 0));
  const std::string six = "clusters(c=3, buckets=8, least=1, raw=0)";
  expect_refused(six, "tables of 7 buckets, where all have 8", 0, body({1, 2, 1, 1, 1, 1}, 0, 6, 0));
  expect_refused(six, "cluster 6 of 6", 0, body({3, 1, 1, 1, 1, 1}, 0, 6, 6));
  expect_refused("clusters(c=1, decode=centre, percentile=100, raw=0)", "not of their side", 0,
                 {0, 0, 0, 0, 0, 0, 0x80, 0xBF, 0, 0});
  expect_refused("clusters(c=1, decode=centre, percentile=100, raw=0)", "after the last symbol", 0,
                 {0, 0, 0, 0, 0, 0, 0x80, 0x3F, 0x20}, 5);
  expect_refused("clusters", "value that is not finite", 0, {0, 0, 0xC0, 0x7F}, 1);
}

TEST_F(Refused, FittedLevels) {
  // 16 values with two levels between 0 and 1, one norm, and symbols of 3 bits.
  const auto body = [](float first, float second, float norm, std::uint8_t last = 0) {
    std::vector<std::uint8_t> bytes(3 * sizeof(float) + 6);
    const std::array floats{first, second, norm};
    std::memcpy(bytes.data(), floats.data(), sizeof(floats));
    bytes.back() = last;
    return bytes;
  };
  for (const std::string name : {"alq", "zipml"}) {
    const std::string expression = name + "(bits=2)";
    for (const auto& [first, second] :
         {std::pair{0.5F, 0.25F}, {-0.5F, 0.5F}, {-0.0F, 0.5F}, {0.5F, 1.5F}, {NAN, 0.5F}, {0.5F, NAN}}) {
      expect_refused(expression, name + ": levels that do not ascend", 0, body(first, second, 1));
    }
    expect_refused(expression, name + ": the scale of a block is negative", 0, body(0.25F, 0.5F, -1));
    expect_refused(expression, name + ": bits after the last symbol", 0, body(0.25F, 0.5F, 1, 0x80), 15);
  }
}

TEST_F(Refused, Bins) {
  // The body of 16 values: 16 floats, and a byte for each symbol.
  const auto with = [](std::vector<std::uint8_t> floats, std::vector<std::uint8_t> rest) {
    floats.resize(64);
    floats.insert(floats.end(), rest.begin(), rest.end());
    return floats;
  };
  const std::vector<std::uint8_t> bins(16);
  expect_refused("quantile", "not finite", 0, with({0, 0, 0x80, 0x7F}, bins));
  expect_refused("quantile", "minus zero", 0, with({0, 0, 0, 0x80}, bins));
  expect_refused("quantile", "not in the order", 0, with({0, 0, 0x80, 0x40, 0, 0, 0x80, 0x3F}, bins));  // 4, 1
  expect_refused("quantile", "not in the order", 0, with({0, 0, 0x80, 0xBF, 0, 0, 0x80, 0x3F}, bins));  // -1, 1
  expect_refused("quantile", "not in the order", 0, with({0, 0, 0, 0, 0, 0, 0x80, 0x3F}, bins));        // 0, 1
  expect_refused("quantile", "a bin that has no value", 0, with({0, 0, 0x80, 0x3F}, std::vector<std::uint8_t>(16, 2)));

  // Four more numbers of 16 bits: how many values are zeros, how many are in the positive class, how many in the
  // negative one, and an unused number. Classes and cells follow.
  const std::string sketch = "quantile | minmax_sketch(groups=2, rows=1, columns=0.2)";
  const auto of_one = with({0, 0, 0x80, 0x3F}, {});                                   // 1
  const auto of_two = with({0, 0, 0x80, 0x3F, 0, 0, 0, 0x40, 0, 0, 0x80, 0xBF}, {});  // 1, 2, -1: levels take one bit
  const auto then = [](std::vector<std::uint8_t> bytes, std::vector<std::uint8_t> rest) {
    bytes.insert(bytes.end(), rest.begin(), rest.end());
    return bytes;
  };
  expect_refused(sketch, "not finite", 0, with({0, 0, 0x80, 0x7F}, {0, 0, 0, 0, 0, 0, 0, 0}));
  expect_refused(sketch, "more or fewer values than there are", 0, with({}, {0, 0, 0, 0, 0, 0, 0, 0}));
  expect_refused(sketch, "more or fewer values than there are", 0, then(of_two, {0, 0, 0xFF, 0xFF, 0, 0, 0, 0}));
  expect_refused(sketch, "a class that is not there", 0, then(of_one, {0, 0, 8, 0, 8, 0, 0, 0}));
  expect_refused(sketch, "a class that is not there", 0, then(of_two, {0, 0, 15, 0, 0, 0, 1, 0}));
  expect_refused(sketch, "where", 0, then(of_two, {0, 0, 16, 0, 0, 0, 0, 0, 0, 0}));        // no cells,
  expect_refused(sketch, "where", 0, then(of_two, {0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0}));  // 4 cells of a bit each
  expect_refused(sketch, "after the last", 0, then(of_two, {0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0x10}));
  expect_refused(sketch, "than it is said to have", 0,
                 then(of_two, {8, 0, 8, 0, 0, 0, 0, 0, 0x55, 0x55, 0x55, 0x55, 0}));
  const auto of_three = with({0, 0, 0x80, 0x3F, 0, 0, 0, 0x40, 0, 0, 0x80, 0x40, 0, 0, 0x80, 0xBF}, {});  // 1, 2, 4, -1
  expect_refused(sketch, "not of its group", 0, then(of_three, {0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 3}));
  const auto both = with({0, 0, 0x80, 0x3F, 0, 0, 0x80, 0xBF}, {});  // 1, -1: with zeros there are three classes
  expect_refused(sketch, "an unknown class", 0, then(both, {16, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0}));
}

TEST_F(Refused, Padding) {
  const auto with = [](std::size_t size, std::uint8_t last) {
    std::vector<std::uint8_t> bytes(size);
    bytes.back() = last;
    return bytes;
  };
  expect_refused("qsgd", "after the last symbol", 0, with(4 + 4, 0x02), 5);  // 25 bits
  expect_refused("qsgd", "after the last symbol", 0, with(4 + 4, 0x80), 5);
  expect_refused("sign", "after the last symbol", 0, with(4 + 1, 0x20), 5);
  expect_refused("threshold | sign", "after the last symbol", 0, {1, 0, 0, 0, 0, 0, 0, 0, 2, 0}, 5);  // 1 value
}

TEST_F(Refused, Compressed) {
  // A frame of 64 zeros, followed by a second frame that is empty or skippable, or by a single byte.
  const std::vector<std::uint8_t> frame{64, 0, 0, 0, 0x28, 0xB5, 0x2F, 0xFD, 0x20, 64, 0x03, 0x02, 0, 0};
  for (const std::vector<std::uint8_t>& tail : {std::vector<std::uint8_t>{0x28, 0xB5, 0x2F, 0xFD, 0x20, 0, 1, 0, 0},
                                                {0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0},
                                                {0}}) {
    auto bytes = frame;
    bytes.insert(bytes.end(), tail.begin(), tail.end());
    expect_refused("f32 | zstd", "after the frame", 2, bytes);
  }
  expect_refused("f32 | zstd", "truncated coded body", 2, {1, 0});
  expect_refused("f32 | zstd", "zstd", 2, {64, 0, 0, 0, 1, 2, 3});
  // The announced size is so large that it must not be allocated.
  expect_refused("f32 | zstd", "where 64 are the most", 2, {0xFF, 0xFF, 0xFF, 0xFF, 0x28, 0xB5, 0x2F, 0xFD});
  // A frame of 255 zeros where 64 are announced, and a frame of 63.
  expect_refused("f32 | zstd", "zstd", 2, {64, 0, 0, 0, 0x28, 0xB5, 0x2F, 0xFD, 0x20, 0xFF, 0xFB, 0x07, 0, 0});
  expect_refused("f32 | zstd", "63 bytes where 64", 2,
                 {64, 0, 0, 0, 0x28, 0xB5, 0x2F, 0xFD, 0x20, 63, 0xFB, 0x01, 0, 0});
}

// 16 values of 1: a norm and 16 equal symbols.
TEST_F(Refused, CodedSymbols) {
  const auto body = [](const std::vector<std::uint8_t>& stream) {
    std::vector<std::uint8_t> bytes(4 + stream.size());
    bytes[2] = 0x80;  // the norm, 1
    bytes[3] = 0x3F;
    std::ranges::copy(stream, bytes.begin() + 4);
    return bytes;
  };
  // All 16 symbols are zeros: their frequency is 1024 of 1024, in the gamma code of 1025. One chunk with four states
  // follows.
  const std::vector<std::uint8_t> rans{10, 0, 0x0C, 0, 16, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0};
  const auto changed = [&](std::size_t at, std::uint8_t value) {
    auto bytes = rans;
    bytes[at] = value;
    return body(bytes);
  };
  const Input input{"w", {{{"w", 0, {16}}}, 16}, std::vector<float>(16, 1.0F)};
  const auto codec = make_codec(read_stages("int8 | rans"));
  Header header = MessageView::parse(encode(*codec, input)).header();
  header.flags = 2;
  const auto good = body(rans);
  EXPECT_EQ(decode(*codec, input, sealed(header, std::as_bytes(std::span(good)))), std::vector<float>(16));

  expect_refused("int8 | rans", "frequencies of 9 bits", 2, changed(0, 9));
  expect_refused("int8 | rans", "frequencies of 15 bits", 2, changed(0, 15));
  expect_refused("int8 | rans", "add up to too much", 2, changed(2, 0x1C));
  std::vector<std::uint8_t> none(40, 0xFF);  // all gamma codes of 1: no symbol occurs
  none[0] = 10;
  expect_refused("int8 | rans", "add up to too little", 2, body(none));
  expect_refused("int8 | rans", "too large, or is cut off", 2, body({10, 0, 0, 0, 0, 0, 0, 0, 0}));
  expect_refused("int8 | rans", "not zero", 2, changed(3, 0x80));
  expect_refused("int8 | rans", "truncated chunks", 2, changed(4, 17));
  expect_refused("int8 | rans", "without states", 2, changed(4, 15));
  expect_refused("int8 | rans", "does not end where it began", 2, changed(8, 1));
  expect_refused("int8 | rans", "below the lowest", 2, changed(10, 0));
  auto longer = rans;
  longer.resize(rans.size() + 2);
  expect_refused("int8 | rans", "2 bytes after the last chunk", 2, body(longer));
  longer[4] = 18;
  expect_refused("int8 | rans", "2 bytes after a chunk", 2, body(longer));
  expect_refused("int8 | rans(adaptive)", "without states", 2, body({1, 0, 0, 0, 0}));
  expect_refused("int8 | rans", "truncated side information", 2, {0, 0, 0x80});
  // Symbols of 2^8 and more; then as many zeros as there are symbols, and more.
  expect_refused("int8 | elias(gaps=false)", "symbol 256 of 256", 2, body({3, 0, 0, 0, 0, 3, 0}));
  expect_refused("int8 | elias", "17 zeros in 16 symbols", 2, body({2, 0, 0, 0, 0x50, 0}));
  expect_refused("int8 | elias", "1 bytes after a chunk", 2, body({3, 0, 0, 0, 0x30, 0, 0}));
  expect_refused("int8 | huffman", "overlap", 2, body({0x21, 0x11}));
  expect_refused("int8 | huffman", "too early", 2, body({0x11, 1, 0, 0, 0, 0}));
  expect_refused("int8 | huffman", "bytes after", 2, body({0x11, 3, 0, 0, 0, 0, 0, 0}));
}

TEST_F(Refused, CodedByLibraries) {
  expect_refused("f32 | lz4", "not a block", 2, {64, 0, 0, 0, 0xFF, 0xFF});
  expect_refused("f32 | lz4", "1 bytes where 64", 2, {64, 0, 0, 0, 0x10, 0});
  expect_refused("f32 | lz4", "where 64 are the most", 2, {0xFF, 0xFF, 0xFF, 0xFF, 0x10, 0});
  std::vector<std::uint8_t> header{2, 1, 0x34, 4, 65, 0, 0, 0, 65, 0, 0, 0, 16, 0, 0, 0};
  expect_refused("f32 | blosc", "not a buffer", 2, {2, 1, 0x34, 4, 64});
  expect_refused("f32 | blosc", "65 bytes where 64", 2, header);
  header[4] = header[8] = 64;
  header[2] = 0x94;
  expect_refused("f32 | blosc", "another codec", 2, header);
  header[2] = 0x34;
  expect_refused("f32 | blosc", "damaged", 2, header);
}

// A reader that opened nothing yet, and one whose last message was refused.
TEST_F(Refused, ThenNothingIsOpen) {
  const Input input{"w", {{{"w", 0, {4, 4}}}, 16}, std::vector<float>(16, 1.0F)};
  const auto other = encode(*make_codec(read_stages("bf16")), input);
  for (const std::string expression : {"f32", "topk(0.1, dense=0) | int8", "svd(rank=1)", "clusters | rans"}) {
    const auto codec = make_codec(read_stages(expression));
    const auto good = encode(*codec, input);
    std::vector<std::unique_ptr<MessageReader>> readers;
    for (const bool after_another : {false, true}) {
      auto& reader = readers.emplace_back(codec->make_opened());
      if (after_another) reader->open(MessageView::parse(good), input.layout, {0, 16});
      EXPECT_THROW(reader->open(MessageView::parse(other), input.layout, {0, 16}), WireError) << expression;
      std::vector<float> values(16);
      Bucket out{values, &input.layout};
      std::vector<std::size_t> bytes(1);
      EXPECT_THROW(reader->add_to(out, 1), std::logic_error) << expression;
      EXPECT_THROW(reader->clear_chosen(out), std::logic_error) << expression;
      EXPECT_THROW(reader->add_shares(bytes), std::logic_error) << expression;
    }
    std::vector<float> values(16);
    Bucket out{values, &input.layout};
    EXPECT_THROW(codec->add_sum(readers, 1, out), std::logic_error) << expression;
    if (codec->traits().lists_atoms) {
      EXPECT_THROW(codec->add_mean_of_holders(readers, {0, 16}, out), std::logic_error) << expression;
    }
  }
}

}  // namespace
}  // namespace sotto::testing
