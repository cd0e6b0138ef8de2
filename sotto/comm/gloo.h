#pragma once

#include <memory>
#include <string>

#include "sotto/comm/transport.h"

namespace sotto {

// The c10d backend over Gloo, for trusted networks: its sockets have no authentication. CommError names the ranks that
// never came or should not be there, ConfigError an interface, address or host that cannot be used; Stopped when
// options.stop said so. After a CommError of an operation the communicator stays failed. A message larger than its room
// ends the receiving process, since Gloo throws on a thread of its own: ranks compare their configuration before they
// exchange messages whose room depends on it.
// SIGPIPE is ignored from then on, unless the program handles it: Gloo would die of it with a peer.
std::unique_ptr<Communicator> connect_gloo(const World& world, const TransportOptions& options);

// Two ranks, here threads, meet on this machine and average a megabyte over the interface, or the loopback.
std::string check_gloo(const std::string& interface);

}  // namespace sotto
