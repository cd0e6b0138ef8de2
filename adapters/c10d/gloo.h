#pragma once

#include <memory>

#include "sotto/comm/transport.h"

namespace sotto {

// Makes a communicator over c10d's Gloo. Only for trusted networks: its sockets have no authentication. CommError names
// ranks that are missing or unexpected, ConfigError an unusable interface, address or host; Stopped if options.stop
// says so. After an operation throws CommError, the communicator stays failed. A message larger than its room ends the
// receiving process, since Gloo throws on its own thread, so ranks compare their configuration before exchanging
// messages whose room depends on it. After this call SIGPIPE is ignored, unless the program handles it: otherwise a
// peer's death would kill this process too.
std::unique_ptr<Communicator> connect_gloo(const World& world, const TransportOptions& options);

}  // namespace sotto
