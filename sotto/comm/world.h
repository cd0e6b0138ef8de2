#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "sotto/comm/communicator.h"
#include "sotto/comm/stop.h"

namespace sotto {

// Who this process is in a job, and where the ranks meet. Filled from the variables of whatever started it.
struct World {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // among the ranks of this host
  std::string starter = "single";      // "sotto", "torchrun", "openmpi", "mpich", "slurm", "single"
  std::string host = "127.0.0.1";      // of the TCPStore where ranks meet
  std::uint16_t port = 0;
  bool host_store = false;  // this rank must serve the store (false when the launcher or torchrun's agent does)
  std::string prefix;       // of keys in the store: a restarted job must not read an old one's
};

// Reads SOTTO_* (our launcher), torchrun's, Open MPI's, MPICH's or SLURM's variables. ConfigError when they contradict
// each other or are malformed. `master` is "host:port", from a flag, or empty. Not `meets`: nobody needs a store, since
// MPI itself connects the ranks.
World find_world(const std::string& master, bool meets = true);

struct GlooOptions {
  std::string interface;  // network interface ("eth0"); empty: by address
  std::string address;    // address or host name to bind; empty: the address that routes to the store
  std::chrono::milliseconds deadline{60000};          // of each operation
  std::chrono::milliseconds connect_deadline{60000};  // for all ranks to come
  Stop stop = {};                                     // asked while they come and connect
};

// The c10d backend over Gloo, for trusted networks: its sockets have no authentication. CommError names the ranks that
// never came or should not be there, ConfigError an interface, address or host that cannot be used; Stopped when `stop`
// said so. After a CommError of an operation the
// communicator stays failed. A message larger than its room ends the receiving process, since Gloo throws on a thread
// of its own: ranks compare their configuration before they exchange messages whose room depends on it.
// SIGPIPE is ignored from then on, unless the program handles it: Gloo would die of it with a peer.
std::unique_ptr<Communicator> connect_gloo(const World& world, const GlooOptions& options);

// Serves a TCPStore on a free port until it is destroyed; for the launcher, which outlives its ranks. It listens on the
// loopback alone when `host` is that, else on all interfaces.
class StoreServer {
 public:
  explicit StoreServer(const std::string& host, std::uint16_t port = 0);  // CommError: the port is in use
  ~StoreServer();
  std::uint16_t port() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sotto
