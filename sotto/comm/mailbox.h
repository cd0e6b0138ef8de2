#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/comm/communicator.h"
#include "sotto/core/thread.h"

namespace sotto {

// A message from a rank.
struct Mail {
  int sender = 0;
  std::vector<std::byte> data;
  Clock::time_point arrived{};
};

// Messages from any rank, in order of arrival: for algorithms in which no rank waits for a particular peer (parameter
// server, AD-PSGD, elastic groups). Communicator::open_mailbox() makes one. Messages of one sender stay in order; a
// rank may send to itself. Any thread may call any function except the destructor.
//
// A rank that will send nothing more calls close(), and does not affect the others from then on. A rank that ends or
// destroys its mailbox without close() is lost: the polls of the others return the messages that have arrived, and then
// throw.
class Mailbox {
 public:
  // The number of messages from one rank to another that may be queued at each end. It bounds the memory: `depth`
  // messages of max_bytes() for each peer and direction.
  static constexpr std::size_t depth = 4;

  Mailbox(int rank, int size, std::size_t max_bytes, Deadline deadline);
  virtual ~Mailbox() = default;  // waits for nobody; messages not yet delivered may be lost
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::size_t max_bytes() const { return max_bytes_; }
  std::chrono::milliseconds deadline() const { return deadlines_.by_last_lap(); }
  const Deadline& deadlines() const { return deadlines_; }

  // Copies a message of at most max_bytes(). Does not wait for its arrival, but waits for room if `depth` other
  // messages to that rank are in transit. The message does not arrive before `not_before`. Returns false if that rank
  // has closed its mailbox: the message is dropped. CommError if that rank is lost, or there is no room within the
  // deadline.
  bool send(int to, std::span<const std::byte> data, Clock::time_point not_before = {});
  // Returns the next message, or nothing if `wait` has passed or the mailbox was cancelled. After a peer is lost and
  // all earlier messages have been returned, every call throws CommError.
  std::optional<Mail> poll(std::chrono::milliseconds wait);
  // Gives back the memory of a polled message. It is reused, so that only the first few messages allocate.
  virtual void recycle(Mail /*mail*/) {}  // NOLINT(performance-unnecessary-value-param): it takes the memory over
  // Wakes every poll, now and later, without a message; other ranks are not affected.
  virtual void cancel() = 0;
  // Ends this rank's part. Returns when all that this rank sent has been delivered, and the other ranks know that it
  // leaves. Later arrivals are dropped. CommError if this takes longer than the deadline. Does not wait for lost peers.
  virtual void close() = 0;
  // Whether that rank has closed its mailbox, and everything that it sent has been polled.
  virtual bool has_left(int peer) const = 0;

  // The bytes that the backend sends before the data of each message.
  virtual std::size_t header_bytes() const { return 0; }
  // Like Communicator::traffic(), but with headers and without messages to the rank itself; `seconds` is the sum over
  // all threads.
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
  Deadline deadlines_;
  mutable Mutex mutex_;
  Traffic traffic_ SOTTO_GUARDED_BY(mutex_);
};

}  // namespace sotto
