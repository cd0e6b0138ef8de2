#pragma once

#include <asio/ip/address.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "sotto/comm/mailbox.h"
#include "sotto/comm/meeting.h"
#include "sotto/comm/tls.h"

namespace sotto {

// Makes a mailbox with its own connections. Ranks listen at `address` and find each other in `section` of the meeting,
// which must be the same on all ranks, as must be the secret (`tls`; null: none). The mailbox has one thread, and a
// connection to each peer from the first message between the two on; at the end close() says goodbye to all. The death
// of a peer is noticed through its connection, so if no message went between the two, it is noticed only when something
// is sent to the peer.
std::unique_ptr<Mailbox> make_tcp_mailbox(std::shared_ptr<Meeting> meeting, const std::string& section,
                                          const asio::ip::address& address, std::shared_ptr<const Tls> tls, int rank,
                                          int size, std::size_t max_bytes, std::chrono::milliseconds deadline);

}  // namespace sotto
