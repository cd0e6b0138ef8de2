#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sotto/comm/inbox.h"
#include "sotto/comm/mailbox.h"
#include "sotto/core/thread.h"

namespace sotto {

class Meeting;

// The header that a mailbox over Gloo sends before each message's data: 8 bytes, little-endian, the kind in the highest
// byte. MPI and tcp use the kinds alone.
struct Frame {
  enum class Kind : std::uint8_t { mail = 1, goodbye = 2, thanks = 3 };  // `thanks` answers `goodbye`
  static constexpr std::size_t bytes = 8;

  Kind kind = Kind::mail;
  std::size_t length = 0;  // of the data; 0 unless kind is mail
};

void write_frame(const Frame& frame, std::span<std::byte> room);
// WireError if it is no frame, or announces more than `max_bytes`.
Frame read_frame(std::span<const std::byte> data, std::size_t max_bytes);

// What network mailboxes share: queues of letters to send, and the way in which ranks leave. A backend has threads that
// send the first letter of each peer's queue, pop() it, and deliver what arrives: mail to the inbox, the rest to
// heard(). These threads must have ended before this object is destroyed.
//
// A rank that closes its mailbox says goodbye to each other rank. The other rank answers with thanks, or has said
// goodbye itself at the same time. When the answer comes, the other rank has read everything that was sent before, and
// nothing more follows. Nothing is sent to peers that have left or are lost.
class QueuedMailbox : public Mailbox {
 public:
  // framed: each letter starts with a frame; otherwise the backend itself transmits kind and length. In `meeting`, if
  // it is not null, ranks say why they failed.
  QueuedMailbox(int rank, int size, std::size_t max_bytes, Deadline deadline, bool framed,
                std::shared_ptr<Meeting> meeting = nullptr);

  std::size_t header_bytes() const override { return framed_ ? Frame::bytes : 0; }
  void recycle(Mail mail) override { inbox_.recycle(std::move(mail.data)); }
  void cancel() override { inbox_.cancel(); }
  bool has_left(int peer) const override { return inbox_.has_left(peer); }
  void close() override;

 protected:
  struct Letter {
    Frame::Kind kind;
    std::vector<std::byte> bytes;  // including its frame
    Clock::time_point not_before;
  };
  struct Peer {
    Condition changed;
    std::deque<Letter> outgoing;  // the first one is being sent
    std::vector<std::vector<std::byte>> spare;
    bool said_goodbye = false;
    bool thanked = false;
    bool broken = false;  // nothing can be sent any more
  };

  Peer& of(int peer) SOTTO_REQUIRES(mutex_) { return peers_[static_cast<std::size_t>(peer)]; }

  // Removes the first letter, which has been sent.
  void pop(int to) SOTTO_REQUIRES(mutex_);
  // A goodbye or thanks has come from that rank; nothing more will come from it.
  void heard(Frame::Kind kind, int from) SOTTO_REQUIRES(mutex_);
  // Called for a new letter; of(to).changed is notified, too. MPI wakes the thread that makes all its calls.
  virtual void posted(int /*to*/) SOTTO_REQUIRES(mutex_) {}

  // Called, without the lock, after a message was polled or close() has begun: the inbox may have room again. Tcp's
  // thread stops reading from a peer while the inbox is full, and then looks again; the threads of Gloo and MPI wait in
  // the inbox itself.
  virtual void made_room() {}

  // Marks the peer as lost, unless it has left; takes the lock.
  void lose(int peer, const std::string& reason);

  Inbox inbox_;
  Mutex mutex_;
  bool ending_ SOTTO_GUARDED_BY(mutex_) = false;    // the destructor has started: later errors are no peer's fault
  bool in_peace_ SOTTO_GUARDED_BY(mutex_) = false;  // close() has returned

 private:
  bool do_send(int to, std::span<const std::byte> data, Clock::time_point not_before) final;
  bool send_to_self(std::span<const std::byte> data, Clock::time_point not_before, Clock::time_point until);
  std::optional<Mail> do_poll(Clock::time_point until) final;
  void post(int to, Frame::Kind kind, std::span<const std::byte> data, Clock::time_point not_before)
      SOTTO_REQUIRES(mutex_);
  void answer_goodbye(int from) SOTTO_REQUIRES(mutex_);
  [[noreturn]] void fail_because(int peer, const std::string& reason);

  bool framed_;
  std::shared_ptr<Meeting> meeting_;
  Mutex asking_;
  std::optional<std::string> cause_ SOTTO_GUARDED_BY(asking_);  // the cause of the first failure, from the meeting
  std::deque<Peer> peers_ SOTTO_GUARDED_BY(mutex_);
};

}  // namespace sotto
