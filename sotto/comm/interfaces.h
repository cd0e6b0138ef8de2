#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/comm/deadline.h"
#include "sotto/comm/world.h"

namespace sotto {

// An address that a socket connects to or listens on.
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

// The addresses of a host given by name or number, at least one. ConfigError if it is unknown. The look-up of a name
// may take long and cannot be cancelled.
std::vector<SocketAddress> resolve(const std::string& host, std::uint16_t port);

bool is_loopback(std::string_view host);  // "127.0.0.1", "localhost", "::1"

// A network interface of this machine, with its numeric addresses.
struct Interface {
  bool up = false;
  std::vector<std::string> addresses;
};
std::map<std::string, Interface> interfaces();  // by name; CommError if the system does not list them

// Returns this machine's network interface of that name. If there is none: ConfigError, with the names of those that
// exist.
Interface require_interface(const std::string& name);

// This machine's numeric address from which packets go to the host of the store. ConfigError if that host is unknown,
// or if its name resolves to this machine's loopback although there are ranks on other machines. CommError if the
// look-up of the name takes longer than `deadline`; Stopped if `stop` says so.
std::string near_address(const World& world, std::chrono::milliseconds deadline, const Stop& stop);

// Gloo and OpenSSL write to their sockets without MSG_NOSIGNAL, so a peer's death would kill this process, too. From
// now on SIGPIPE is ignored, unless the program handles it.
void ignore_broken_pipes();

}  // namespace sotto
