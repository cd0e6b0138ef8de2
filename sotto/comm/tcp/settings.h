#pragma once

#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>
#include <memory>
#include <optional>

#include "sotto/comm/deadline.h"
#include "sotto/comm/tcp/tls.h"
#include "sotto/comm/transport.h"

namespace sotto {

// How a rank and its peers reach each other.
struct TcpSettings {
  TransportOptions options{};      // as the user gave them; these follow from them:
  asio::ip::address address;       // where this rank listens, unless there is a relay
  std::shared_ptr<const Tls> tls;  // the secret of all ranks; null: none, and everything can be read on the way
  Deadline deadline{std::chrono::seconds(60)};
  // Peers reach this rank through this relay (relay.h), and this rank reaches others with a relay through it.
  std::optional<asio::ip::tcp::endpoint> relay{};
};

}  // namespace sotto
