#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "sotto/comm/group/meeting.h"
#include "sotto/comm/mailbox.h"
#include "sotto/comm/transport.h"
#include "sotto/core/timer.h"

namespace sotto {

struct TcpSettings;

// Makes a communicator on TCP connections of our own (peers.h), which are made when they are first used: a rank
// has options.streams sockets for each peer that it exchanges with. It has no thread; an exchange polls all its
// connections, in both directions. Mailboxes have one thread each. With options.secret the connections are private
// (tls.h); without it ranks listen at loopback addresses only: ConfigError for any other interface or address.
// CommError names ranks that are missing or unexpected; Stopped if options.stop says so while the ranks meet. After an
// operation throws CommError, the communicator stays failed.
std::unique_ptr<Communicator> connect_tcp(const World& world, const TransportOptions& options);

// The same for ranks that have met already.
std::unique_ptr<Communicator> connect_tcp(std::shared_ptr<Meeting> meeting, const TcpSettings& settings, int rank,
                                          int size);

// Makes a mailbox with its own connections. Ranks find each other in `section` of the meeting, which must be the same
// on all ranks. The mailbox has one thread. It connects to a peer at the first message between the two ranks; at the
// end close() says goodbye to all. The death of a peer is noticed through the connection. Without a connection it is
// noticed only when something is sent to the peer.
std::unique_ptr<Mailbox> make_tcp_mailbox(std::shared_ptr<Meeting> meeting, const std::string& section,
                                          const TcpSettings& settings, int rank, int size, std::size_t max_bytes);

// Where the ranks of a group listen (TcpDoor::place()), in a section of the store in which they met.
class TcpPlaces {
 public:
  TcpPlaces(std::shared_ptr<const Meeting> meeting, const std::string& section)
      : meeting_(std::move(meeting)), section_(meeting_->section(section)) {}

  void leave(int rank, const std::string& place);
  // The place of that rank, or nothing if the rank has left none yet. CommError if the store does not answer by
  // `until`, or the rank has ended before it could leave any.
  std::optional<std::string> find(int rank, Clock::time_point until) const;

 private:
  std::shared_ptr<const Meeting> meeting_;
  StorePtr section_;
};

}  // namespace sotto
