#pragma once

#include <memory>

#include "sotto/comm/transport.h"

namespace sotto {

// Makes a communicator on TCP connections of our own (stripes.h), which are made when they are first used: a rank
// has options.streams sockets for each peer that it exchanges with. It has no thread; an exchange polls all its
// connections, in both directions. Mailboxes have one thread each. With options.secret the connections are private
// (tls.h); without it ranks listen at loopback addresses only: ConfigError for any other interface or address.
// CommError names ranks that are missing or unexpected; Stopped if options.stop says so while the ranks meet. After an
// operation throws CommError, the communicator stays failed.
std::unique_ptr<Communicator> connect_tcp(const World& world, const TransportOptions& options);

}  // namespace sotto
