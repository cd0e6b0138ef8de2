#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sotto/comm/communicator.h"
#include "sotto/comm/deadline.h"
#include "sotto/comm/world.h"
#include "sotto/core/options.h"

namespace sotto {

// How a transport connects the ranks of a job. A user's option is a member and a line of visit(), from which its flag,
// help, record and checks are made.
struct TransportOptions {
  std::string interface = {};  // network interface ("eth0"); empty: by address
  std::string address = {};    // address or host name to bind; empty: the address that routes to the store
  std::string secret = {};     // file with the secret of all ranks (secret.h); empty: the world's, if it has one
  std::string relay = {};      // "host:port" of the relay through which peers come; empty: they connect directly
  std::int64_t streams = 1;    // connections to each peer, over which long messages are spread
  // Not set by users:
  std::chrono::milliseconds deadline{60000};          // of each operation
  std::chrono::milliseconds connect_deadline{60000};  // until all ranks have come
  Stop stop = {};                                     // called while ranks come and connect

  void visit(OptionVisitor& v) {
    v.option("interface", interface, "network interface that the transport uses");
    v.option("address", address, "address that the transport binds; empty: the one that routes to the master");
    v.option("secret", secret,
             "file with the secret of all ranks, which makes connections private; `sotto secret new`");
    v.option("relay", relay,
             "HOST:PORT of `sotto relay`, for a rank that others cannot reach, as behind NAT; wants a `secret`");
    v.option("streams", streams, "connections to each peer, which share long messages: for links with delay and losses",
             {1, 64});
  }
};

// A way for the processes of a job to exchange messages; users choose it by name. Ranks that are threads of one process
// (emulated/threads.h) and emulated links (emulated/shaped.h) are not in the table, since users do not choose them as a
// transport.
struct Transport {
  // Why an option has no effect, as a clause for an error.
  struct Refusal {
    std::string_view option, why;
  };
  enum class Takes { all, named };

  std::string_view name;
  std::string_view summary;
  std::string_view needs{};  // what it needs from the machine, in words that follow "which wants"; empty: nothing
  // How the ranks find each other, as a clause like `needs`; empty: they meet in a store at World::host and
  // World::port.
  std::string_view own_meeting{};
  Takes takes = Takes::named;                 // all TransportOptions, or those that `taken` names
  std::span<const std::string_view> taken{};  // the others are refused, with these reasons:
  std::span<const Refusal> refusals{};

  // Why the transport does not take this option, as a clause; nothing if it takes it.
  std::optional<std::string_view> refuses(std::string_view option) const {
    if (takes == Takes::all || std::ranges::find(taken, option) != taken.end()) return std::nullopt;
    const auto known = std::ranges::find(refusals, option, &Refusal::option);
    return known == refusals.end() ? "there is no such option" : known->why;
  }

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
