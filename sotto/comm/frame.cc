#include "sotto/comm/frame.h"

#include <fmt/format.h>

#include "sotto/core/bytes.h"

namespace sotto {
namespace {

constexpr unsigned kind_shift = 56;

}  // namespace

void write_frame(const Frame& frame, std::span<std::byte> room) {
  ByteWriter writer(room);
  writer.put(std::uint64_t{frame.length} | std::uint64_t{static_cast<std::uint8_t>(frame.kind)} << kind_shift);
}

Frame read_frame(std::span<const std::byte> data, std::size_t max_bytes) {
  ByteReader reader(data);
  const auto word = reader.get<std::uint64_t>("frame");
  const auto kind = static_cast<Frame::Kind>(word >> kind_shift);
  const std::uint64_t length = word & ((std::uint64_t{1} << kind_shift) - 1);
  if (kind != Frame::Kind::mail && (length != 0 || (kind != Frame::Kind::goodbye && kind != Frame::Kind::thanks))) {
    throw WireError(fmt::format("{:#x} is no frame of a mailbox", word));
  }
  if (length > max_bytes) {
    throw WireError(fmt::format("a message of {} bytes is announced, and {} may come at most", length, max_bytes));
  }
  return {kind, static_cast<std::size_t>(length)};
}

}  // namespace sotto
