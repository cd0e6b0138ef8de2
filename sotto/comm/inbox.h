#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sotto/comm/mailbox.h"
#include "sotto/core/mutex.h"

namespace sotto {

// What has come for a rank and that nobody has polled yet: what the mailboxes of all backends have in common. Any
// thread may call anything.
class Inbox {
 public:
  enum class Put { taken, full, closed };

  explicit Inbox(int size) : peers_(static_cast<std::size_t>(size)) {}

  // Waits until `until` for room, as there is for `depth` messages of each sender. The message is not handed out before
  // mail.arrived, nor before an earlier one of that sender. Closed: nobody will poll it.
  Put put(Mail mail, Clock::time_point until);
  bool has_room(int sender) const;  // for a message, without waiting
  // The message that arrived first; then the peer that was lost, and why, by `lost`.
  std::optional<Mail> poll(Clock::time_point until, std::pair<int, std::string>& lost);
  void cancel();

  // No more comes from this peer: it has left, or is lost for a reason. The first word counts.
  void leave(int peer) { end(peer, ""); }
  void lose(int peer, std::string reason) { end(peer, std::move(reason)); }
  bool has_left(int peer) const;  // and all that it sent was polled
  // Why that peer is lost; "" when it has left; nothing when it is there.
  std::optional<std::string> gone(int peer) const;

  // Drops what is there and what comes; wakes those who wait in put().
  void close();

  // Memory for a message, of one that was recycled where there is any.
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
