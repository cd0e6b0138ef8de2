#include "sotto/codec/message.h"
#include "sotto/codec/stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "sotto/codec/codec.h"
#include "sotto/core/error.h"
#include "sotto/kernels/checksum.h"
#include "tests/codec/fixture.h"
#include "tests/kernels/targets.h"

namespace sotto::testing {
namespace {

const Key key{.seed = 1, .rank = 2, .generation = 3, .step = 4};

Input small_input() { return {"small", borrowed_layout(), gaussian(borrowed_layout(), 12)}; }

// Damages the message by `change`; returns whether decoding it then throws a WireError and leaves the target untouched.
template <class Change>
::testing::AssertionResult refused(const std::string& expression, Change change) {
  const Input input = small_input();
  const auto codec = make_codec(read_stages(expression));
  auto message = encode(*codec, input, key);
  change(message);
  std::vector<float> out(input.values.size(), 1.5F);
  try {
    add_part(*codec, input.layout, {0, input.layout.size()}, message, 1, out);
  } catch (const WireError&) {
    return out == std::vector<float>(out.size(), 1.5F) ? ::testing::AssertionSuccess()
                                                       : ::testing::AssertionFailure() << "the target was touched";
  }
  return ::testing::AssertionFailure() << "accepted";
}

class EveryMessage : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryMessage, IsRefusedWhenTruncatedAnywhere) {
  const auto codec = make_codec(read_stages(GetParam()));
  const std::size_t size = encode(*codec, small_input(), key).size();
  for (std::size_t length = 0; length < size; ++length) {
    EXPECT_TRUE(refused(GetParam(), [&](auto& message) { message.resize(length); })) << length;
  }
}

TEST_P(EveryMessage, IsRefusedWhenAnyBitIsFlipped) {
  const auto codec = make_codec(read_stages(GetParam()));
  const Input input = small_input();
  auto message = encode(*codec, input, key);
  std::vector<float> out(input.values.size(), 1.5F);
  const std::vector<float> before = out;
  for (std::size_t bit = 0; bit < 8 * message.size(); ++bit) {
    const auto mask = static_cast<std::byte>(1U << (bit % 8));
    message[bit / 8] ^= mask;
    EXPECT_THROW(add_part(*codec, input.layout, {0, input.layout.size()}, message, 1, out), WireError) << bit;
    message[bit / 8] ^= mask;
  }
  EXPECT_EQ(out, before);
}

INSTANTIATE_TEST_SUITE_P(Some, EveryMessage,
                         ::testing::Values("f32", "f16", "bf16", "qsgd(bits=3)", "sign(block=16)", "int8",
                                           "topk(0.1) | qsgd", "threshold(1) | zstd", "qsgd(bits=1) | zstd"));

TEST(Message, MayStandInALongerBuffer) {
  const Input input = small_input();
  const auto codec = make_codec(read_stages("f32"));
  auto message = encode(*codec, input, key);
  const std::size_t size = message.size();
  message.resize(size + 100, std::byte{0xEE});
  EXPECT_EQ(MessageView::parse(message).size(), size);
  EXPECT_EQ(decode(*codec, input, message), input.values);
}

TEST(Message, MayStandAtAnyAddress) {
  for (const char* expression : {"f32", "f16", "topk(0.2) | qsgd", "sign(block=3)"}) {
    const Input input = small_input();
    const auto codec = make_codec(read_stages(expression));
    const auto message = encode(*codec, input, key);
    const auto expected = decode(*codec, input, message);
    std::vector<std::byte> shifted(message.size() + 4);
    for (std::size_t shift = 1; shift < 4; ++shift) {
      std::copy(message.begin(), message.end(), shifted.begin() + static_cast<std::ptrdiff_t>(shift));
      EXPECT_EQ(decode(*codec, input, std::span(shifted).subspan(shift)), expected);
    }
  }
}

TEST(Message, HasAViewOnceItIsFinished) {
  Message message;
  EXPECT_THROW(message.view(), std::logic_error);
  message.begin(10);
  EXPECT_THROW(message.view(), std::logic_error);
}

TEST(Message, IsOfOneOriginStepBucketAndPart) {
  const Input input = small_input();
  const auto message = encode(*make_codec(read_stages("f32")), input, key, 7);
  const MessageView view = MessageView::parse(message);
  EXPECT_NO_THROW(view.expect({3, 2, 4, 7, 0}));
  for (const Expected& other :
       {Expected{0, 2, 4, 7, 0}, {3, 1, 4, 7, 0}, {3, 2, 5, 7, 0}, {3, 2, 4, 6, 0}, {3, 2, 4, 7, 1}}) {
    EXPECT_THROW(view.expect(other), WireError);
  }
}

TEST(Message, IsOfOneCodecLayoutAndPart) {
  const Input input = small_input();
  const auto codec = make_codec(read_stages("topk(0.1)"));
  const auto message = encode(*codec, input, key);
  std::vector<float> out(input.values.size());
  const Range whole{0, input.layout.size()};
  EXPECT_NO_THROW(add_part(*codec, input.layout, whole, message, 1, out));
  EXPECT_THROW(add_part(*make_codec(read_stages("topk(0.2)")), input.layout, whole, message, 1, out), WireError);
  EXPECT_THROW(add_part(*make_codec(read_stages("topk(0.1) | f16")), input.layout, whole, message, 1, out), WireError);
  EXPECT_THROW(add_part(*codec, input.layout, {0, 82}, message, 1, out), WireError);
  const Layout renamed({{"other", 0, {3}}, {"second", 3, {4, 11}}, {"third", 50, {1}}, {"fourth", 51, {2, 3, 5}}}, 83);
  EXPECT_THROW(add_part(*codec, renamed, whole, message, 1, out), WireError);
}

TEST(Message, ParseSaysWhatIsWrong) {
  const auto why = [](std::span<const std::byte> bytes) -> std::string {
    try {
      MessageView::parse(bytes);
    } catch (const WireError& error) {
      return error.what();
    }
    return "accepted";
  };
  const auto message = encode(*make_codec(read_stages("f32")), small_input(), key);
  EXPECT_NE(why({}).find("truncated"), std::string::npos);
  auto other = message;
  other[0] = std::byte{'x'};
  EXPECT_NE(why(other).find("not a message"), std::string::npos);
  other = message;
  other[2] = std::byte{9};
  EXPECT_NE(why(other).find("version 9"), std::string::npos);
  other = message;
  other.pop_back();
  EXPECT_NE(why(other).find("truncated"), std::string::npos);
  other = message;
  other.back() ^= std::byte{1};
  EXPECT_NE(why(other).find("checksum"), std::string::npos);
}

TEST(Message, AnnouncesItsSizeAtTheFrontOfALargerBuffer) {
  Message message;
  message.begin(100);
  message.finish(Header{}, 10);
  std::vector<std::byte> buffer(200);
  std::ranges::copy(message.bytes(), buffer.begin());
  EXPECT_EQ(MessageView::announced_size(buffer), sizeof(Header) + 10);
  EXPECT_EQ(MessageView::announced_size(std::span(buffer).first(40)), 40U) << "it does not fit";
  buffer[0] = std::byte{0};
  EXPECT_EQ(MessageView::announced_size(buffer), 200U) << "no message";
  EXPECT_EQ(MessageView::announced_size({}), 0U);
}

TEST(Crc32, OfStretchesIsThatOfTheWhole) {
  std::vector<std::byte> bytes(1000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 % 251);
  const std::span<const std::byte> all(bytes);
  const std::uint32_t whole = kernels::crc32(0, all);
  for (const std::size_t at : {0, 1, 7, 500, 999, 1000}) {
    const std::uint32_t tail = kernels::crc32(0, all.subspan(at));
    kernels::JoinedCrc joined;
    joined.add(kernels::crc32(0, all.first(at)), at);
    joined.add(tail, bytes.size() - at);
    EXPECT_EQ(joined.value(), whole) << at;
    EXPECT_EQ(kernels::crc32(kernels::crc32(0, all.first(at)), all.subspan(at)), whole) << at;
  }
}

TEST(Crc32, OfManyStretchesOfOneLengthIsThatOfTheWhole) {
  std::vector<std::byte> bytes(1000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 91 % 253);
  const std::span<const std::byte> all(bytes);
  kernels::JoinedCrc joined;
  for (std::size_t at = 0; at < all.size(); at += 64) {
    const auto stretch = all.subspan(at, std::min<std::size_t>(64, all.size() - at));
    joined.add(kernels::crc32(0, stretch), stretch.size());
  }
  EXPECT_EQ(joined.value(), kernels::crc32(0, all));
}

// Compared with the definition, bit by bit, on every SIMD target, at lengths around the number of bytes that are folded
// at a time.
TEST(Crc32, IsTheOneOfZlib) {
  std::vector<std::byte> bytes(3000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i * 31 % 253);
  std::vector<std::uint32_t> expected;
  std::uint32_t state = ~0U;
  for (const std::byte byte : std::span(bytes).subspan(3)) {
    expected.push_back(~state);
    state ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1U) != 0 ? 0xEDB88320U : 0U);
  }
  kernels::on_every_target([&] {
    for (std::size_t length = 0; length < expected.size(); length += length < 1200 ? 1 : 37) {
      ASSERT_EQ(kernels::crc32(0, std::span(bytes).subspan(3, length)), expected[length]) << length;
    }
  });
}

// A segment longer than the stretches that are quantised at a time: its message must not depend on where it is cut.
TEST(LongSegments, AreWhatTheirPartsAre) {
  const Layout layout({{"w", 0, {70'001}}}, 70'001);
  const Input input{"long", layout, gaussian(layout, 21)};
  for (const char* expression :
       {"f32", "f16", "bf16", "int8", "int8(block=100, stochastic=true)", "int4(block=7)", "qsgd(bucket=1000)", "sign",
        "sign(block=24)", "sign(block=9)", "terngrad", "qsgd | zstd"}) {
    SCOPED_TRACE(expression);
    const auto codec = make_codec(read_stages(expression));
    const auto whole = decode(*codec, input, encode(*codec, input));  // throws if the checksum is wrong
    const Contract contract = codec->contract(layout);
    if (contract.grain == Contract::Grain::segment) continue;
    std::vector<float> out(layout.size());
    for (std::size_t begin = 0; begin < layout.size();) {
      const std::size_t end = std::min(begin + 4 * std::max<std::size_t>(contract.block, 777), layout.size());
      const Range part{begin / contract.block * contract.block,
                       end == layout.size() ? end : end / contract.block * contract.block};
      add_part(*codec, layout, part, encode_part(*codec, input, part), 1, out);
      begin = part.end;
    }
    EXPECT_EQ(out, whole);
  }
}

}  // namespace
}  // namespace sotto::testing
