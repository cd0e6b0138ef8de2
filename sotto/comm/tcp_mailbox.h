#pragma once

#include <asio/ip/address.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "sotto/comm/mailbox.h"
#include "sotto/comm/meeting.h"

namespace sotto {

// Makes a mailbox on connections of its own between ranks that listen at `address` and find each other in this section
// of the meeting, which all ranks name alike. It has one thread, and a connection to each peer from the first message
// between the two; at the end close() says goodbye to all. A peer that dies is noticed through its connection, so one
// that never sent or got a message is noticed only when something is sent to it.
std::unique_ptr<Mailbox> make_tcp_mailbox(std::shared_ptr<Meeting> meeting, const std::string& section,
                                          const asio::ip::address& address, int rank, int size, std::size_t max_bytes,
                                          std::chrono::milliseconds deadline);

}  // namespace sotto
