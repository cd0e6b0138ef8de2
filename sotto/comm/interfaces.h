#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/comm/world.h"

namespace sotto {

// Where a socket connects or listens.
class SocketAddress {
 public:
  SocketAddress(const sockaddr* address, socklen_t length);
  int family() const { return storage_.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t length() const { return length_; }
  std::uint16_t port() const;

 private:
  sockaddr_storage storage_{};
  socklen_t length_;
};

// The addresses of a host by name or number, at least one. ConfigError when it is unknown. The look-up of a name may
// take long, and cannot be called off.
std::vector<SocketAddress> resolve(const std::string& host, std::uint16_t port);

bool is_loopback(std::string_view host);  // "127.0.0.1", "localhost", "::1"

// ConfigError, with the names of those that there are, unless this machine has such a network interface.
void require_interface(const std::string& name);

// The numeric address of this machine from which packets go to the host of the store. ConfigError when that host is
// unknown, or when its name leads to this machine's loopback although there are ranks on other machines.
std::string address_towards(const World& world);

}  // namespace sotto
