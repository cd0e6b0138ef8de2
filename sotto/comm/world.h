#pragma once

#include <cstdint>
#include <memory>
#include <string>

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
// the transport itself connects the ranks (Transport::own_meeting).
World find_world(const std::string& master, bool meets = true);

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
