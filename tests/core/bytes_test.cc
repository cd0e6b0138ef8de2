#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <stdexcept>

#include "helpers.h"
#include "sotto/core/bytes.h"

namespace sotto {
namespace {

using test::error_of;

TEST(Bytes, RoundTripIsLittleEndian) {
  std::array<std::byte, 16> buffer{};
  ByteWriter writer(buffer);
  writer.put(std::uint32_t{0x04030201});
  writer.put(1.5F);
  writer.put_bytes(std::as_bytes(std::span("abc", 3)));
  writer.put_bytes({});
  EXPECT_EQ(writer.used(), 11U);
  EXPECT_EQ(writer.rest().size(), 5U);
  EXPECT_EQ(buffer[0], std::byte{1});
  EXPECT_EQ(buffer[3], std::byte{4});

  const std::span<const std::byte> written = buffer;
  ByteReader reader(written.first(11));
  EXPECT_EQ(reader.get<std::uint32_t>("a"), 0x04030201U);
  EXPECT_EQ(reader.get<float>("b"), 1.5F);
  EXPECT_EQ(reader.left(), 3U);
  EXPECT_EQ(reader.rest()[0], std::byte{'a'});
  EXPECT_EQ(reader.take(3, "c")[2], std::byte{'c'});
  reader.finish("all");
}

TEST(Bytes, ShortAndLongBuffersAreWireErrors) {
  const std::array<std::byte, 3> buffer{};
  ByteReader reader(buffer);
  EXPECT_EQ(error_of<WireError>([&] { reader.get<std::uint32_t>("scale"); }),
            "truncated scale: 4 bytes wanted, 3 left");
  EXPECT_EQ(error_of<WireError>([&] { reader.take(SIZE_MAX, "body"); }),
            "truncated body: 18446744073709551615 bytes wanted, 3 left");
  reader.get<std::uint16_t>("count");  // a failed read took nothing
  EXPECT_EQ(error_of<WireError>([&] { reader.finish("the body"); }), "1 bytes too many after the body");
  EXPECT_THROW(ByteReader({}).get<std::uint8_t>("x"), WireError);
}

TEST(Bytes, OverrunningAWriterIsAMistake) {
  std::array<std::byte, 3> buffer{};
  ByteWriter writer(buffer);
  EXPECT_THROW(writer.put(std::uint32_t{1}), std::logic_error);
  EXPECT_THROW(writer.take(SIZE_MAX), std::logic_error);
  EXPECT_EQ(writer.used(), 0U);
}

}  // namespace
}  // namespace sotto
