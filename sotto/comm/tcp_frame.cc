#include "sotto/comm/tcp_frame.h"

#include <fmt/format.h>

#include <algorithm>

#include "sotto/core/bytes.h"

namespace sotto {
namespace {

constexpr std::uint32_t magic = 0x6F746F73;  // "soto"
constexpr std::uint32_t version = 2;         // of the hello; it decides what may follow

}  // namespace

void write_frame(const TcpFrame& frame, std::span<std::byte, TcpFrame::bytes> room) {
  ByteWriter writer(room);
  writer.put(magic);
  writer.put(static_cast<std::uint32_t>(frame.kind));
  writer.put(frame.sequence);
  writer.put(frame.length);
}

TcpFrame read_tcp_frame(std::span<const std::byte> data, std::uint64_t sequence) {
  ByteReader reader(data);
  const auto word = reader.get<std::uint32_t>("frame");
  const auto kind = reader.get<std::uint32_t>("frame");
  TcpFrame frame;
  frame.sequence = reader.get<std::uint64_t>("frame");
  frame.length = reader.get<std::uint64_t>("frame");
  if (word != magic || kind < 1 || kind > static_cast<std::uint32_t>(TcpFrame::Kind::stripes)) {
    throw WireError(fmt::format("{:#x} {:#x} begins no frame", word, kind));
  }
  frame.kind = static_cast<TcpFrame::Kind>(kind);
  const bool counts = frame.kind != TcpFrame::Kind::welcome && frame.kind != TcpFrame::Kind::ack;
  if (counts && frame.sequence != sequence) {
    throw WireError(fmt::format("frame {} came where frame {} was due", frame.sequence, sequence));
  }
  if (!counts && frame.length != 0) throw WireError(fmt::format("a frame of kind {} has data", kind));
  return frame;
}

void write_hello(const TcpHello& hello, std::span<std::byte, TcpHello::bytes> room) {
  write_frame({TcpFrame::Kind::hello, 0, TcpHello::bytes - TcpFrame::bytes}, room.first<TcpFrame::bytes>());
  ByteWriter writer(room.subspan<TcpFrame::bytes>());
  writer.put(version);
  writer.put(hello.from);
  writer.put(hello.to);
  writer.put(hello.size);
  writer.put(hello.connection);
  writer.put(hello.last);
  writer.put(hello.due);
  writer.put_bytes(hello.key);
  std::array<std::byte, TcpHello::place_bytes> place{};
  if (hello.place.size() <= place.size()) std::ranges::copy(std::as_bytes(std::span(hello.place)), place.begin());
  writer.put_bytes(place);
}

TcpHello read_hello(std::span<const std::byte, TcpHello::bytes> data) {
  const TcpFrame frame = read_tcp_frame(data, 0);
  if (frame.kind != TcpFrame::Kind::hello || frame.length != TcpHello::bytes - TcpFrame::bytes) {
    throw WireError("a connection does not begin with a hello");
  }
  ByteReader reader(data.subspan<TcpFrame::bytes>());
  const auto theirs = reader.get<std::uint32_t>("hello");
  if (theirs != version) throw WireError(fmt::format("a hello of version {} instead of {}", theirs, version));
  TcpHello hello;
  hello.from = reader.get<std::uint32_t>("hello");
  hello.to = reader.get<std::uint32_t>("hello");
  hello.size = reader.get<std::uint32_t>("hello");
  hello.connection = reader.get<std::uint64_t>("hello");
  hello.last = reader.get<std::uint64_t>("hello");
  hello.due = reader.get<std::uint64_t>("hello");
  std::ranges::copy(reader.take(sizeof(TcpKey), "hello"), hello.key.begin());
  for (const std::byte part : reader.take(TcpHello::place_bytes, "hello")) {
    if (part == std::byte{}) break;
    hello.place += std::to_integer<char>(part);
  }
  return hello;
}

}  // namespace sotto
