#include "sotto/comm/tcp/frame.h"

#include <fmt/format.h>

#include <algorithm>

#include "sotto/core/bytes.h"
#include "sotto/kernels/checksum.h"

namespace sotto {
namespace {

constexpr std::uint32_t magic = 0x6F746F73;  // "soto"
constexpr std::uint32_t version = 3;         // of the hello; it decides what may follow
constexpr std::uint64_t hello_data = TcpHello::bytes - 24;
constexpr int kind_at = 56;  // the bits of the length are below it

}  // namespace

void write_frame(const TcpFrame& frame, std::span<std::byte, TcpFrame::bytes> room) {
  ByteWriter writer(room.subspan<sizeof(std::uint32_t)>());
  writer.put(frame.crc);
  writer.put(frame.sequence);
  writer.put(frame.length | std::uint64_t{static_cast<std::uint8_t>(frame.kind)} << kind_at);
  ByteWriter(room.first<sizeof(std::uint32_t)>()).put(kernels::crc32(0, room.subspan<sizeof(std::uint32_t)>()));
}

TcpFrame read_tcp_frame(std::span<const std::byte> data, std::uint64_t sequence) {
  ByteReader reader(data);
  const auto crc = reader.get<std::uint32_t>("frame");
  TcpFrame frame;
  frame.crc = reader.get<std::uint32_t>("frame");
  frame.sequence = reader.get<std::uint64_t>("frame");
  const auto length = reader.get<std::uint64_t>("frame");
  if (crc != kernels::crc32(0, data.first<TcpFrame::bytes>().subspan<sizeof(crc)>())) {
    throw DamagedFrame(fmt::format("the header of frame {} has a wrong checksum", sequence));
  }
  const auto kind = static_cast<unsigned>(length >> kind_at);
  frame.length = length & ((std::uint64_t{1} << kind_at) - 1);
  if (kind < static_cast<unsigned>(TcpFrame::Kind::welcome) || kind > static_cast<unsigned>(TcpFrame::Kind::stripes)) {
    throw WireError(fmt::format("there is no frame of kind {}", kind));
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
  ByteWriter writer(room);
  writer.put(magic);
  writer.put(static_cast<std::uint32_t>(TcpFrame::Kind::hello));
  writer.put(std::uint64_t{0});
  writer.put(hello_data);
  writer.put(version);
  writer.put(hello.from);
  writer.put(hello.to);
  writer.put(hello.size);
  writer.put(hello.connection);
  writer.put(hello.last);
  writer.put(hello.due);
  writer.put_bytes(hello.key);
  writer.put_bytes(hello.place);
  writer.put(kernels::crc32(0, room.first<TcpHello::bytes - sizeof(std::uint32_t)>()));
}

TcpHello read_hello(std::span<const std::byte, TcpHello::bytes> data) {
  ByteReader reader(data);
  const auto word = reader.get<std::uint32_t>("hello");
  const auto kind = reader.get<std::uint32_t>("hello");
  const auto zero = reader.get<std::uint64_t>("hello");
  const auto length = reader.get<std::uint64_t>("hello");
  if (word != magic || kind != static_cast<std::uint32_t>(TcpFrame::Kind::hello) || zero != 0 || length != hello_data) {
    throw WireError("a connection does not begin with a hello");
  }
  const auto theirs = reader.get<std::uint32_t>("hello");
  if (theirs != version) throw WireError(fmt::format("a hello of version {} instead of {}", theirs, version));
  constexpr std::size_t checked = TcpHello::bytes - sizeof(std::uint32_t);
  if (ByteReader(data.subspan<checked>()).get<std::uint32_t>("hello") != kernels::crc32(0, data.first<checked>())) {
    throw WireError("its hello was changed on the way");
  }
  TcpHello hello;
  hello.from = reader.get<std::uint32_t>("hello");
  hello.to = reader.get<std::uint32_t>("hello");
  hello.size = reader.get<std::uint32_t>("hello");
  hello.connection = reader.get<std::uint64_t>("hello");
  hello.last = reader.get<std::uint64_t>("hello");
  hello.due = reader.get<std::uint64_t>("hello");
  std::ranges::copy(reader.take(sizeof(TcpKey), "hello"), hello.key.begin());
  std::ranges::copy(reader.take(sizeof(TcpHello::Place), "hello"), hello.place.begin());
  return hello;
}

}  // namespace sotto
