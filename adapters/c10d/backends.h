#pragma once

#include <memory>
#include <string>

#include "sotto/comm/transport.h"

namespace sotto {

// Makes a communicator over c10d's Gloo. Only for trusted networks: its sockets have no authentication. CommError names
// ranks that are missing or unexpected, ConfigError an unusable interface, address or host; Stopped if options.stop
// says so. After an operation throws CommError, the communicator stays failed. A message larger than its room ends the
// receiving process, since Gloo throws on its own thread, so ranks compare their configuration before exchanging
// messages whose room depends on it. After this call SIGPIPE is ignored, unless the program handles it: otherwise a
// peer's death would kill this process too.
std::unique_ptr<Communicator> connect_gloo(const World& world, const TransportOptions& options);

// LibTorch's library, such as "NCCL 2.27.5"; empty if it has none (a CPU wheel), or its headers were not found.
std::string nccl_library();

// ConfigError if NCCL cannot work: it was not built, or this host has fewer GPUs than ranks.
void require_nccl(const World& world);

// Makes a communicator on NCCL messages, through the memory of this rank's own GPU: the one with the rank's number on
// its host. Data stay on the host, where the codecs run. Sums have the same bits as with every other backend. NCCL
// itself chooses the network (NCCL_SOCKET_IFNAME, NCCL_IB_HCA). There is no mailbox. The death of a rank is noticed
// through its connection or at the deadline. Stopped if options.stop says so while the ranks meet.
std::unique_ptr<Communicator> connect_nccl(const World& world, const TransportOptions& options);

}  // namespace sotto
