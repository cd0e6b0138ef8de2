#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "sotto/comm/group/store.h"
#include "sotto/comm/transport.h"
#include "sotto/core/table.h"

namespace sotto {

const Table<Transport>& transport_table();  // the default first

// For help: "tcp; gloo; mpi, which wants mpirun or srun as the starter; or ..."
std::string transport_choices();

// Joins a store of c10d (TCPStore), as torchrun's agent serves one. It serves none.
const StoreService& c10d_stores();

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

// Runs two ranks as threads of this process: they meet in a store on this machine, connect over the interface (over the
// loopback if it is empty), and both run `work`. Throws the Error of the rank that failed.
void run_two_ranks(decltype(Transport::make) connect, const std::string& interface, std::chrono::milliseconds deadline,
                   const std::function<void(Communicator&)>& work);

// The check of a transport whose ranks meet in a store: two ranks sum a megabyte. Returns how long that took, in words.
std::string try_two_ranks(decltype(Transport::make) connect, const std::string& interface);

}  // namespace sotto
