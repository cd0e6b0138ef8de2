#pragma once

#include <memory>
#include <string>

#include "sotto/comm/transport.h"

namespace sotto {

// The library that LibTorch brings, as "NCCL 2.27.5"; empty where it has none (a CPU wheel), or its headers were not
// found.
std::string nccl_library();

// ConfigError where NCCL cannot work: it was not built, or this host has fewer GPUs than ranks.
void require_nccl(const World& world);

// A communicator on NCCL's messages, through the memory of a GPU that no other rank has: the one of this rank's number
// on its host. Data stay on the host: codecs run there. Sums are those of every other backend, bit for bit. NCCL itself
// chooses among networks (NCCL_SOCKET_IFNAME, NCCL_IB_HCA). No mailbox. A rank that dies is noticed by its connection
// or at the deadline. Stopped when options.stop says so while they meet.
std::unique_ptr<Communicator> connect_nccl(const World& world, const TransportOptions& options);

}  // namespace sotto
