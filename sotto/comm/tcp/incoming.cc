#include "sotto/comm/tcp/incoming.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "sotto/kernels/checksum.h"

namespace sotto {
namespace {

constexpr std::size_t staging_bytes = 64 << 10;  // short messages of this many bytes arrive with one call of the system

}  // namespace

TcpIncoming::TcpIncoming(TcpOwner& owner, int peer) : owner_(owner), peer_(peer), staged_(staging_bytes) {}

// If more pieces follow, only the head of the next one is staged, so that its data need no copy.
TcpIncoming::Space TcpIncoming::space() {
  if (over_ || waits_for_room()) return {};
  const std::size_t missing = frame_ ? frame_->data_bytes() - filled_ : 0;
  const bool in_message = message_ && room_ && (!frame_ || rest_ > frame_->data_bytes());
  const auto free = std::span(staged_).subspan(held_);
  return {frame_ ? room_->subspan(filled_, missing) : std::span<std::byte>(),
          in_message ? free.first(TcpFrame::bytes - held_) : free};
}

void TcpIncoming::took(std::size_t bytes) {
  const std::size_t direct = frame_ ? std::min(bytes, frame_->data_bytes() - filled_) : 0;
  filled(direct);
  held_ += bytes - direct;
}

// Bytes are summed as they come, while they are in the processor's cache.
void TcpIncoming::filled(std::size_t bytes) {
  if (bytes == 0) return;
  crc_ = kernels::crc32(crc_, room_->subspan(filled_, bytes));
  filled_ += bytes;
}

void TcpIncoming::use(TcpOutgoing& outgoing) {
  const unsigned turn = turn_;
  std::size_t used = 0;
  while (!over_) {
    if (!frame_) {
      if (held_ - used < TcpFrame::bytes) break;
      const TcpFrame frame = read_tcp_frame(std::span(staged_).subspan(used, TcpFrame::bytes), due_);
      used += TcpFrame::bytes;
      if (frame.kind == TcpFrame::Kind::ack) {
        outgoing.acknowledge(frame.sequence);
        acknowledged_ = true;
        continue;
      }
      begin_frame(frame);
    }
    if (!room_ && !(room_ = owner_.room_for(peer_, *message_))) break;
    const std::size_t count = std::min(frame_->data_bytes() - filled_, held_ - used);
    if (count > 0) std::memcpy(room_->data() + filled_, staged_.data() + used, count);
    used += count;
    filled(count);
    if (filled_ < frame_->data_bytes()) break;
    end_frame();
    if (turn != turn_) return;  // closed by the owner
  }
  held_ -= used;
  std::memmove(staged_.data(), staged_.data() + used, held_);
}

void TcpIncoming::begin_frame(const TcpFrame& frame) {
  using Kind = TcpFrame::Kind;
  if (message_) {  // in its middle, or a connection broke in its first piece
    const Kind kind = rest_ < message_->length ? Kind::more : message_->kind;
    if (frame.kind != kind || frame.length != rest_) {
      throw WireError(fmt::format("a frame of kind {} with {} bytes came in the middle of a message, where {} were due",
                                  static_cast<int>(frame.kind), frame.length, rest_));
    }
  } else {
    if (frame.kind < Kind::message || frame.kind == Kind::more) {
      throw WireError(fmt::format("a frame of kind {} came, which begins no message", static_cast<int>(frame.kind)));
    }
    message_ = frame;
    rest_ = frame.length;
  }
  frame_ = frame;
  filled_ = 0;
  crc_ = 0;
}

void TcpIncoming::end_frame() {
  const std::size_t bytes = frame_->data_bytes();
  if (crc_ != frame_->crc) throw DamagedFrame(fmt::format("the data of frame {} have a wrong checksum", due_));
  rest_ -= bytes;
  room_ = room_->subspan(bytes);
  unacknowledged_ += frame_->all_bytes();
  ++due_;
  frame_.reset();
  if (rest_ > 0) return;
  const TcpFrame whole = *std::exchange(message_, std::nullopt);
  room_.reset();
  over_ = !owner_.received(peer_, whole);
}

void TcpIncoming::begin_again() {
  ++turn_;
  held_ = filled_ = unacknowledged_ = 0;
  acknowledged_ = false;
  frame_.reset();
}

}  // namespace sotto
