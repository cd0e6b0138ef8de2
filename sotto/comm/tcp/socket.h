#pragma once

#include <asio/error_code.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <string>

#include "sotto/comm/interfaces.h"

namespace sotto {

asio::ip::tcp::endpoint endpoint_of(const SocketAddress& address);
std::string origin_of(const asio::ip::tcp::socket& socket);  // "10.0.0.1 port 4242", the other end

// Whether the error says that the other end has closed the connection, or is not there.
bool is_closed(const asio::error_code& error);

// Options of the system for sockets of the transport `tcp`. What the system refuses is left as it is.

// Opens the socket. An attempt to connect that nobody answers ends after some seconds, so that the next one comes while
// the deadline has not passed.
void prepare_to_connect(asio::ip::tcp::socket& socket, const asio::ip::tcp& protocol);
// A connection whose other end is silent for a third of the deadline counts as broken, whether this end sends or waits;
// at least for ten seconds. The system of a peer answers even while the peer is busy (tcp_pulse.h is about the peer).
void limit_silence(asio::ip::tcp::socket& socket, std::chrono::milliseconds deadline);
// Buffers and delays for messages. Call it as soon as there is a connection: what peers compute before they answer
// would make the link look longer.
void prepare_to_carry(asio::ip::tcp::socket& socket);

}  // namespace sotto
