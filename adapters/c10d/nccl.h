#pragma once

#include <memory>
#include <string>

#include "sotto/comm/transport.h"

namespace sotto {

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
