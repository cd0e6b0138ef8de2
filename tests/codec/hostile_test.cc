// Messages with wrong content and a right checksum, as a hostile peer can make them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "sotto/core/random.h"
#include "tests/codec/fixture.h"
#include "tests/support/opened.h"

namespace sotto::testing {
namespace {

// The message is either refused with the target untouched, or decoded to finite numbers with clean padding.
void expect_safe(const Codec& codec, const Input& input, std::span<const std::byte> message) {
  const Range whole{0, input.layout.size()};
  std::vector<float> out(input.values.size());
  try {
    add_part(codec, input.layout, whole, message, 1, out);
  } catch (const WireError&) {
    EXPECT_EQ(square_norm(out), 0);
    EXPECT_THROW(test::opened(codec, MessageView::parse(message), input.layout, whole), WireError);
    return;
  }
  EXPECT_NO_THROW(test::opened(codec, MessageView::parse(message), input.layout, whole));
  std::vector<float> cleared = out;
  input.layout.clear_padding(cleared);
  EXPECT_EQ(out, cleared);
  EXPECT_TRUE(std::isfinite(square_norm(out)));
}

void expect_safe_bodies(const std::string& expression) {
  Layout layout;
  layout.append("a", {3, 7});
  layout.append("b", {5});
  const Input input{"padded", layout, gaussian(layout, 13)};
  const auto codec = make_codec(read_stages(expression));
  const auto message = encode(*codec, input);
  const MessageView view = MessageView::parse(message);
  std::vector<std::byte> body(view.body().begin(), view.body().end());

  for (std::size_t bit = 0; bit < 8 * body.size(); ++bit) {
    const auto mask = static_cast<std::byte>(1U << (bit % 8));
    body[bit / 8] ^= mask;
    expect_safe(*codec, input, sealed(view.header(), body));
    body[bit / 8] ^= mask;
  }
  for (std::size_t length = 0; length < body.size(); ++length) {
    expect_safe(*codec, input, sealed(view.header(), std::span(body).first(length)));
  }
  for (unsigned flags = 0; flags < 256; ++flags) {
    Header header = view.header();
    header.flags = static_cast<std::uint8_t>(flags);
    expect_safe(*codec, input, sealed(header, body));
  }
  Philox random(14, Purpose::test);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<std::byte> noise(random.below(2 * static_cast<std::uint32_t>(body.size()) + 8));
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random.next());
    Header header = view.header();
    header.flags = static_cast<std::uint8_t>(random.below(32));
    expect_safe(*codec, input, sealed(header, noise));
  }
}

TEST(Hostile, BodiesAreRefusedOrHarmless) {
  for (const std::string& expression : all_codecs()) {
    SCOPED_TRACE(expression);
    expect_safe_bodies(expression);
  }
}

// Bodies are long enough for codes to shorten them; a few bytes are damaged.
TEST(Hostile, DamagedCodesAreRefusedOrHarmless) {
  const Layout layout({{"a", 0, {2500}}, {"b", 2500, {4, 125}}}, 3000);
  Input input{"mostly zeros", layout, gaussian(layout, 15)};
  for (std::size_t i = 0; i < 3000; ++i) input.values[i] *= i % 7 == 0 ? 1.0F : 0.0F;
  for (const char* code : {"rans", "rans(segment)", "rans(adaptive)", "huffman", "elias", "elias(gaps=false)", "lz4",
                           "blosc", "blosc(shuffle, codec=zstd)", "zstd"}) {
    for (const char* quantise : {"f32", "qsgd(bits=4, norm=l2)", "terngrad", "topk(0.1) | f32"}) {
      const std::string expression = std::string(quantise) + " | " + code;
      SCOPED_TRACE(expression);
      const auto codec = make_codec(read_stages(expression));
      const auto message = encode(*codec, input);
      const MessageView view = MessageView::parse(message);
      Philox random(16, Purpose::test);
      for (int trial = 0; trial < 400; ++trial) {
        std::vector<std::byte> body(view.body().begin(), view.body().end());
        for (std::uint32_t changes = 1 + random.below(3); changes > 0; --changes) {
          const std::uint32_t among = random.below(2) == 0 ? 64 : static_cast<std::uint32_t>(body.size());
          body[random.below(std::min(among, static_cast<std::uint32_t>(body.size())))] =
              static_cast<std::byte>(random.next());
        }
        if (random.below(8) == 0) body.resize(random.below(static_cast<std::uint32_t>(body.size())));
        expect_safe(*codec, input, sealed(view.header(), body));
      }
    }
  }
}

// Where the checksum is not made to fit, every damage is found.
TEST(Hostile, EveryTruncationAndEveryFlippedBitIsRefused) {
  const Input input{"small", {{{"a", 0, {7}}, {"b", 8, {2}}}, 12}, {1, -2, 0, 0.5F, 3, 0, -1, 0, 4, -0.1F, 0, 0}};
  for (const std::string& expression : all_codecs()) {
    SCOPED_TRACE(expression);
    const auto codec = make_codec(read_stages(expression));
    auto message = encode(*codec, input);
    EXPECT_NO_THROW(decode(*codec, input, message));
    for (std::size_t length = 0; length < message.size(); ++length) {
      EXPECT_THROW(decode(*codec, input, std::span(message).first(length)), WireError) << length << " bytes";
    }
    for (std::size_t bit = 0; bit < 8 * message.size(); ++bit) {
      const auto mask = static_cast<std::byte>(1U << (bit % 8));
      message[bit / 8] ^= mask;
      EXPECT_THROW(decode(*codec, input, message), WireError) << "bit " << bit;
      message[bit / 8] ^= mask;
    }
  }
}

}  // namespace
}  // namespace sotto::testing
