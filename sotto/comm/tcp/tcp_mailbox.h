#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "sotto/comm/group/meeting.h"
#include "sotto/comm/mailbox.h"
#include "sotto/comm/tcp/stripes.h"

namespace sotto {

// Makes a mailbox with its own connections. Ranks find each other in `section` of the meeting, which must be the same
// on all ranks. The mailbox has one thread, and connections to each peer from the first message between the two on; at
// the end close() says goodbye to all. The death of a peer is noticed through its connection, so if no message went
// between the two, it is noticed only when something is sent to the peer.
std::unique_ptr<Mailbox> make_tcp_mailbox(std::shared_ptr<Meeting> meeting, const std::string& section,
                                          const TcpSettings& settings, int rank, int size, std::size_t max_bytes);

}  // namespace sotto
