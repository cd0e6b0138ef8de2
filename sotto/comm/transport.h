#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "sotto/comm/communicator.h"
#include "sotto/comm/deadline.h"
#include "sotto/comm/stop.h"
#include "sotto/comm/world.h"

namespace sotto {

// How a transport connects the ranks of a job. Each transport ignores the options that its entry rules out.
struct TransportOptions {
  std::string interface = {};  // network interface ("eth0"); empty: by address
  std::string address = {};    // address or host name to bind; empty: the address that routes to the store
  std::string secret = {};     // file with the secret of all ranks (secret.h); empty: that of the world, if any
  std::string relay = {};      // "host:port" of the relay through which peers come; empty: they connect directly
  int streams = 1;             // connections to each peer, over which long messages are spread
  std::chrono::milliseconds deadline{60000};          // of each operation
  std::chrono::milliseconds connect_deadline{60000};  // until all ranks have come
  Stop stop = {};                                     // called while they come and connect
};

// A way for the processes of a job to exchange messages; users choose it by name. Ranks that are threads of one process
// (threads.h) and emulated links (shaped.h) are not in the table, since users do not choose them as a transport.
struct Transport {
  std::string_view name;
  std::string_view summary;
  std::string_view needs;  // what it needs from the machine, in words that follow "which wants"; empty: nothing

  // The next five are empty if users have the choice. Otherwise each is a reason, as a clause for an error.
  // Who chooses the network; empty: TransportOptions::interface and ::address do.
  std::string_view own_networks;
  // Why it takes no secret; empty: TransportOptions::secret makes its connections private.
  std::string_view no_secret;
  // Why its ranks cannot meet through a relay; empty: TransportOptions::relay is where they do.
  std::string_view no_relay;
  // Who chooses the number of connections; empty: TransportOptions::streams does.
  std::string_view own_streams;
  // How the ranks find each other; empty: they meet in a store at World::host and World::port.
  std::string_view own_meeting;

  // ConfigError if the ranks of this world cannot use the transport: it was not built, or lacks what it needs. For
  // ranks that the launcher has not started yet, pass a world with the starter "single".
  void (*require)(const World& world);
  std::unique_ptr<Communicator> (*make)(const World& world, const TransportOptions& options);
  // For `sotto doctor`: returns the library, or the result of a trial, over that interface if it is not empty. Returns
  // nothing if the transport was not built; throws the Error that a training would end with.
  std::string (*check)(const std::string& interface);

  // Waits until all ranks have come. Deadlines are Deadline::longest at most.
  std::unique_ptr<Communicator> connect(const World& world, TransportOptions options) const {
    options.deadline = std::min(options.deadline, Deadline::longest);
    options.connect_deadline = std::min(options.connect_deadline, Deadline::longest);
    return make(world, options);
  }
};

}  // namespace sotto
