#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/comm/communicator.h"
#include "sotto/core/mutex.h"

namespace sotto {

// A message that somebody sent.
struct Mail {
  int sender = 0;
  std::vector<std::byte> data;
  Clock::time_point arrived{};
};

// Messages from any rank, in the order in which they arrive: for algorithms in which nobody waits for a certain peer
// (parameter server, AD-PSGD, elastic groups). Communicator::open_mailbox() makes one. Messages of one sender stay in
// order; a rank may send to itself. Any thread may call anything but the destructor.
//
// A rank that has nothing more to say says so with close(), and is no trouble to the others from then on. One that
// ends, or destroys its mailbox, without it is lost: polls of the others hand out what has come, and then throw.
class Mailbox {
 public:
  // Messages from one rank to another that may be on their way at each end: memory is bounded by this many of the
  // longest, for each peer and direction.
  static constexpr std::size_t depth = 4;

  Mailbox(int rank, int size, std::size_t max_bytes, std::chrono::milliseconds deadline);
  virtual ~Mailbox() = default;  // does not wait for anybody; what was not handed over yet may be lost
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::size_t max_bytes() const { return max_bytes_; }
  std::chrono::milliseconds deadline() const { return deadline_; }

  // Copies a message of at most max_bytes() and does not wait for its arrival; but for room, when `depth` others are
  // on their way to that rank. It does not arrive before `not_before`. False when that rank has closed its mailbox: the
  // message is dropped. CommError when it is lost, or there is no room within the deadline.
  bool send(int to, std::span<const std::byte> data, Clock::time_point not_before = {});
  // The next message, or nothing when `wait` has passed or the mailbox was cancelled. CommError when a peer is lost,
  // each time, once everything that came before was handed out.
  std::optional<Mail> poll(std::chrono::milliseconds wait);
  // Memory of a message that was polled, for later ones: then none is allocated after the first few.
  virtual void recycle(Mail /*mail*/) {}
  // Wakes every poll, now and later, without a message; other ranks are not disturbed.
  virtual void cancel() = 0;
  // This rank ends in peace: returns when all that it sent was handed over, and those ranks know. What arrives from now
  // on is dropped. CommError when that takes longer than the deadline. A lost peer is not waited for.
  virtual void close() = 0;
  // Whether that rank has closed its mailbox, and all that it sent was polled.
  virtual bool has_left(int peer) const = 0;

  // What the backend sends before the data of each message.
  virtual std::size_t header_bytes() const { return 0; }
  // As that of a communicator, headers included, and without what a rank sends to itself; `seconds` are those of all
  // threads together.
  Traffic traffic() const;

 protected:
  virtual bool do_send(int to, std::span<const std::byte> data, Clock::time_point not_before) = 0;
  virtual std::optional<Mail> do_poll(Clock::time_point until) = 0;

  // "rank 2: mailbox with rank 0: REASON"
  std::string failure(int peer, std::string_view reason) const;
  // "4 messages were not polled for 60 s"
  std::string not_polled() const;

 private:
  int rank_;
  int size_;
  std::size_t max_bytes_;
  std::chrono::milliseconds deadline_;
  mutable Mutex mutex_;
  Traffic traffic_ SOTTO_GUARDED_BY(mutex_);
};

}  // namespace sotto
