#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "sotto/comm/tcp/frame.h"

namespace sotto {

// What a rank sends to a peer, over one connection after another. It keeps what the peer has not acknowledged, so that
// a new connection can begin where the broken one ended.
//
// A message stays in the memory of its owner until all of it was handed to the system. Then the frames that the peer
// has not acknowledged are copied. No message waits for an acknowledgement. The copy is about as long as what system
// and link hold, unless acknowledgements must wait: they may come after a message for which this rank has no room.
class TcpOutgoing {
 public:
  using Parts = std::array<std::span<const std::byte>, 2>;

  // A peer acknowledges after so many bytes at the latest.
  static constexpr std::size_t unacknowledged_bytes = 1 << 20;
  // While so many bytes are kept, no message begins.
  static constexpr std::size_t most_kept = 64 << 20;

  // A message to send after the others. Its data must stay until it is reported as complete.
  void add(TcpFrame::Kind kind, std::span<const std::byte> data) { letters_.push_back({kind, data}); }
  // Sends a welcome or an acknowledgement before the frames that wait, in place of an earlier one that was not begun.
  void say(TcpFrame::Kind kind, std::uint64_t due) { word_ = {kind, due, 0}, has_word_ = true; }

  // The bytes to write next, which stay until they are written() or the connection ends; empty: there are none.
  Parts next();
  // So many of them were handed to the system. Returns the number of messages that are complete now: 0 or 1.
  std::size_t written(std::size_t bytes);
  // The peer says that it has all frames before number `due`. WireError if that is impossible.
  void acknowledge(std::uint64_t due);
  // The same on a new connection, over which the rest is sent again. Returns the number of messages that are complete.
  std::size_t begin_again(std::uint64_t due);

  std::uint64_t acknowledged() const { return acknowledged_; }  // the number of the first frame that is not
  // Once all is written: the bytes that the peer must still acknowledge; 0 if it may leave the rest unacknowledged.
  std::size_t awaited() const { return letters_.empty() && kept_bytes() >= unacknowledged_bytes ? kept_bytes() : 0; }

 private:
  enum class Unit { none, word, again, piece };
  struct Letter {
    TcpFrame::Kind kind;
    std::span<const std::byte> data;
  };

  Unit choose();
  std::span<const std::byte> piece(std::uint64_t number) const;
  TcpFrame head(std::uint64_t number);
  void keep();
  void end_letter();
  void drop();
  std::size_t kept_bytes() const { return kept_.size() - kept_begin_; }
  [[noreturn]] static void refuse(std::uint64_t due, std::uint64_t from, std::uint64_t to);

  std::deque<Letter> letters_;       // the first one is being sent
  std::vector<std::uint32_t> crcs_;  // of its first pieces
  TcpFrame word_;
  bool has_word_ = false;

  // Numbers of frames: those of acknowledged_ ... first_ - 1 are kept.
  std::uint64_t acknowledged_ = 1;
  std::uint64_t kept_first_ = 1;  // the frame at kept_begin_; drop() moves it up to acknowledged_
  std::uint64_t first_ = 1;       // of the first letter
  std::uint64_t next_ = 1;        // the frame that is written now or next
  std::uint64_t begun_ = 1;       // the first frame of which no byte was written on any connection
  std::vector<std::byte> kept_;   // frames as they were sent, from kept_begin_ on
  std::size_t kept_begin_ = 0;
  std::size_t again_at_ = 0;  // where frame next_ begins, if it is before first_

  Unit unit_ = Unit::none;  // what is being written
  Parts rest_;
  std::array<std::byte, TcpFrame::bytes> head_{};
};

}  // namespace sotto
