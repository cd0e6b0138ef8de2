// The frame that a mailbox reads before it makes room for a message.
#include "sotto/comm/frame.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "sotto/core/error.h"

namespace sotto {
namespace {

std::array<std::byte, Frame::bytes> word(std::uint64_t value) {
  std::array<std::byte, Frame::bytes> bytes{};
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

TEST(Frame, ComesBackAsItWasWritten) {
  for (const Frame frame : {Frame{Frame::Kind::mail, 0}, Frame{Frame::Kind::mail, 1000}, Frame{Frame::Kind::goodbye, 0},
                            Frame{Frame::Kind::thanks, 0}}) {
    std::array<std::byte, Frame::bytes> bytes{};
    write_frame(frame, bytes);
    const Frame back = read_frame(bytes, 1000);
    EXPECT_EQ(back.kind, frame.kind);
    EXPECT_EQ(back.length, frame.length);
  }
  EXPECT_EQ(word(0x01'00'00'00'00'00'03'e8)[0], std::byte{0xe8});
  EXPECT_EQ(read_frame(word(0x01'00'00'00'00'00'03'e8), 1000).length, 1000U);
}

TEST(Frame, AnythingElseIsRefused) {
  for (const std::uint64_t hostile :
       {std::uint64_t{0}, std::uint64_t{1000}, std::uint64_t{0x04'00'00'00'00'00'00'00}, ~std::uint64_t{0},
        std::uint64_t{0x02'00'00'00'00'00'00'01}, std::uint64_t{0x03'ff'ff'ff'ff'ff'ff'ff},
        std::uint64_t{0x01'00'00'00'00'00'03'e9}, std::uint64_t{0x01'ff'ff'ff'ff'ff'ff'ff}}) {
    EXPECT_THROW(read_frame(word(hostile), 1000), WireError) << std::hex << hostile;
  }
  const auto empty = word(0x01'00'00'00'00'00'00'00);
  EXPECT_THROW(read_frame(std::span(empty).first(7), 1000), WireError);
}

}  // namespace
}  // namespace sotto
