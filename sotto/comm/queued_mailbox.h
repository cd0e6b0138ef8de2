#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "sotto/comm/frame.h"
#include "sotto/comm/inbox.h"
#include "sotto/comm/mailbox.h"
#include "sotto/core/mutex.h"

namespace sotto {

// What mailboxes over a network have in common: letters that wait until they are sent, and how a rank takes its leave.
// A backend has threads that send the first letter of each peer's queue, pop() it, and hand over what comes: mail to
// the inbox, the rest to heard(). They must have ended before this is destroyed.
//
// A rank that closes its mailbox says goodbye to each other one, which thanks it, or says the same at the same time:
// then it has read all that was sent before, and nothing more comes. Who has left, or is lost, hears nothing any more.
class QueuedMailbox : public Mailbox {
 public:
  // Framed: each letter begins with a frame; else the backend itself tells kinds and lengths.
  QueuedMailbox(int rank, int size, std::size_t max_bytes, std::chrono::milliseconds deadline, bool framed);

  std::size_t header_bytes() const override { return framed_ ? Frame::bytes : 0; }
  void recycle(Mail mail) override { inbox_.recycle(std::move(mail.data)); }
  void cancel() override { inbox_.cancel(); }
  bool has_left(int peer) const override { return inbox_.has_left(peer); }
  void close() override;

 protected:
  struct Letter {
    Frame::Kind kind;
    std::vector<std::byte> bytes;  // with its frame
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

  // The first letter is sent.
  void pop(int to) SOTTO_REQUIRES(mutex_);
  // A word that is no mail has come from that rank, from which nothing more will.
  void heard(Frame::Kind kind, int from) SOTTO_REQUIRES(mutex_);
  // There is a new letter; of(to).changed knows.
  virtual void posted(int /*to*/) SOTTO_REQUIRES(mutex_) {}

  // The peer is lost, unless it has left; takes the lock.
  void lose(int peer, const std::string& reason);
  // CommError; a backend may know more of the reason.
  [[noreturn]] virtual void fail_because(int peer, const std::string& reason);

  Inbox inbox_;
  Mutex mutex_;
  bool ending_ SOTTO_GUARDED_BY(mutex_) = false;    // the destructor has begun, and no peer is to blame for anything
  bool in_peace_ SOTTO_GUARDED_BY(mutex_) = false;  // close() has returned

 private:
  bool do_send(int to, std::span<const std::byte> data, Clock::time_point not_before) final;
  bool send_to_self(std::span<const std::byte> data, Clock::time_point not_before, Clock::time_point until);
  std::optional<Mail> do_poll(Clock::time_point until) final;
  void post(int to, Frame::Kind kind, std::span<const std::byte> data, Clock::time_point not_before)
      SOTTO_REQUIRES(mutex_);
  void answer_goodbye(int from) SOTTO_REQUIRES(mutex_);

  bool framed_;
  std::deque<Peer> peers_ SOTTO_GUARDED_BY(mutex_);
};

}  // namespace sotto
