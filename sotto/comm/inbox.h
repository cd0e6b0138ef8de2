#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sotto/comm/mailbox.h"
#include "sotto/core/thread.h"

namespace sotto {

// The messages that have arrived for a rank and are not polled yet; the mailboxes of all backends share this class. Any
// thread may call any function.
class Inbox {
 public:
  enum class Put { taken, full, closed };

  explicit Inbox(int size) : peers_(static_cast<std::size_t>(size)) {}

  // Waits for room until `until` at most: there is room for `depth` messages of each sender. poll() does not return the
  // message before mail.arrived, nor before earlier messages of its sender. Returns `closed` if nobody will poll.
  Put put(Mail mail, Clock::time_point until);
  bool has_room(int sender) const;  // whether there is room for a message now
  // Returns the message that arrived first. If there is none and a peer was lost, writes the peer and the reason to
  // `lost`.
  std::optional<Mail> poll(Clock::time_point until, std::pair<int, std::string>& lost);
  void cancel();

  // No more messages will come from this peer: it has left, or is lost for a reason. Only the first call for a peer
  // counts.
  void leave(int peer) { end(peer, ""); }
  void lose(int peer, std::string reason) { end(peer, std::move(reason)); }
  bool has_left(int peer) const;  // and everything that it sent has been polled
  // Why that peer is lost; "" if it has left; nothing if it is present.
  std::optional<std::string> gone(int peer) const;

  // Drops all messages, present and future; wakes the callers of put().
  void close();

  // Memory for a message; reuses a recycled buffer if there is one.
  std::vector<std::byte> buffer(std::size_t bytes);
  void recycle(std::vector<std::byte> buffer);

 private:
  struct Peer {
    std::size_t waiting = 0;  // messages
    Clock::time_point last{};
    std::optional<std::string> gone;
  };
  void end(int peer, std::string reason);
  Peer& of(int peer) SOTTO_REQUIRES(mutex_) { return peers_[static_cast<std::size_t>(peer)]; }
  const Peer& of(int peer) const SOTTO_REQUIRES(mutex_) { return peers_[static_cast<std::size_t>(peer)]; }

  mutable Mutex mutex_;
  Condition changed_;
  std::deque<Mail> mail_ SOTTO_GUARDED_BY(mutex_);  // by time of arrival
  std::vector<Peer> peers_ SOTTO_GUARDED_BY(mutex_);
  int first_lost_ SOTTO_GUARDED_BY(mutex_) = -1;
  bool cancelled_ SOTTO_GUARDED_BY(mutex_) = false;
  bool closed_ SOTTO_GUARDED_BY(mutex_) = false;
  std::vector<std::vector<std::byte>> spare_ SOTTO_GUARDED_BY(mutex_);
};

}  // namespace sotto
