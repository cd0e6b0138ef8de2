#include "sotto/comm/tcp/frame.h"

#include <fmt/format.h>

#include "sotto/core/bytes.h"
#include "sotto/kernels/checksum.h"

namespace sotto {
namespace {

constexpr std::uint32_t magic = 0x6F746F73;  // "soto"
constexpr std::uint32_t hello_version = 3;   // it decides what may follow
constexpr int kind_at = 56;                  // the bits of the length are below it

// A frame as it is sent.
struct FrameHead {
  std::uint32_t head_crc = 0, crc = 0;
  std::uint64_t sequence = 0;
  std::uint64_t length_and_kind = 0;

  std::uint32_t crc_of_rest() const {
    return kernels::crc32(0, std::as_bytes(std::span(this, 1)).subspan(sizeof(head_crc)));
  }
};
static_assert(sizeof(FrameHead) == TcpFrame::bytes);

// A hello as it is sent.
struct HelloHead {
  std::uint32_t word = magic;
  std::uint32_t kind = static_cast<std::uint32_t>(TcpFrame::Kind::hello);
  std::uint64_t zero = 0;
  std::uint64_t length = TcpHello::bytes - TcpFrame::bytes;
  std::uint32_t version = hello_version;
  std::uint32_t from = 0, to = 0, size = 0;
  std::uint64_t connection = 0, last = 0, due = 0;
  TcpKey key{};
  TcpHello::Place place{};
  std::uint32_t crc = 0;

  std::uint32_t crc_of_rest() const {
    return kernels::crc32(0, std::as_bytes(std::span(this, 1)).first<offsetof(HelloHead, crc)>());
  }
};
static_assert(sizeof(HelloHead) == TcpHello::bytes);

}  // namespace

void write_frame(const TcpFrame& frame, std::span<std::byte, TcpFrame::bytes> room) {
  FrameHead head{.crc = frame.crc,
                 .sequence = frame.sequence,
                 .length_and_kind = frame.length | std::uint64_t{static_cast<std::uint8_t>(frame.kind)} << kind_at};
  head.head_crc = head.crc_of_rest();
  ByteWriter(room).put(head);
}

TcpFrame read_tcp_frame(std::span<const std::byte> data, std::uint64_t sequence) {
  const auto head = ByteReader(data).get<FrameHead>("frame");
  if (head.head_crc != head.crc_of_rest()) {
    throw DamagedFrame(fmt::format("the header of frame {} has a wrong checksum", sequence));
  }
  const auto kind = static_cast<unsigned>(head.length_and_kind >> kind_at);
  if (kind < static_cast<unsigned>(TcpFrame::Kind::welcome) || kind > static_cast<unsigned>(TcpFrame::Kind::stripes)) {
    throw WireError(fmt::format("there is no frame of kind {}", kind));
  }
  const TcpFrame frame{static_cast<TcpFrame::Kind>(kind), head.sequence,
                       head.length_and_kind & ((std::uint64_t{1} << kind_at) - 1), head.crc};
  const bool counts = frame.kind != TcpFrame::Kind::welcome && frame.kind != TcpFrame::Kind::ack;
  if (counts && frame.sequence != sequence) {
    throw WireError(fmt::format("frame {} came where frame {} was due", frame.sequence, sequence));
  }
  if (!counts && frame.length != 0) throw WireError(fmt::format("a frame of kind {} has data", kind));
  return frame;
}

void write_hello(const TcpHello& hello, std::span<std::byte, TcpHello::bytes> room) {
  HelloHead head{.from = hello.from,
                 .to = hello.to,
                 .size = hello.size,
                 .connection = hello.connection,
                 .last = hello.last,
                 .due = hello.due,
                 .key = hello.key,
                 .place = hello.place};
  head.crc = head.crc_of_rest();
  ByteWriter(room).put(head);
}

TcpHello read_hello(std::span<const std::byte, TcpHello::bytes> data) {
  const auto head = ByteReader(data).get<HelloHead>("hello");
  const HelloHead right;
  if (head.word != right.word || head.kind != right.kind || head.zero != right.zero || head.length != right.length) {
    throw WireError("a connection does not begin with a hello");
  }
  if (head.version != hello_version) {
    throw WireError(fmt::format("a hello of version {} instead of {}", head.version, hello_version));
  }
  if (head.crc != head.crc_of_rest()) throw WireError("its hello was changed on the way");
  return {head.from, head.to, head.size, head.connection, head.last, head.due, head.key, head.place};
}

}  // namespace sotto
