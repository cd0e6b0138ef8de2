#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "sotto/comm/communicator.h"
#include "sotto/comm/group/meeting.h"

namespace sotto {

struct StoreGroupOptions {
  std::chrono::milliseconds deadline{60000};  // of each operation, and until all ranks have come
  bool encrypt = true;                        // between hosts
  std::string interface = {};                 // network interface ("eth0"); empty: the one that leads to `near_host`
  std::string near_host = {};                 // a host that all ranks can reach; empty: none is known
  std::int64_t streams = 1;                   // connections to each peer
};

struct StoreGroup {
  std::unique_ptr<Communicator> communicator;
  bool encrypts = false;
};

// Makes a communicator on TCP connections of our own for the ranks of a meeting. Collective. If all ranks run on one
// host they connect over the loopback. Otherwise rank 0 makes a secret, which the others find in the meeting's store:
// connections are as private as that. ConfigError if ranks run on several hosts and neither an interface nor a host is
// given; CommError names ranks that did not come.
StoreGroup connect_at(std::shared_ptr<Meeting> meeting, int rank, int size, const StoreGroupOptions& options);

}  // namespace sotto
