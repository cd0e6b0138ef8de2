#include "sotto/comm/interfaces.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <set>
#include <string_view>

#include "sotto/core/error.h"

namespace sotto {
namespace {

// The local address of a connection to `target`, or nothing. Connecting a datagram socket sends nothing.
std::string near_end(const SocketAddress& target) {
  const int socket = ::socket(target.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return {};
  sockaddr_storage near{};
  socklen_t length = sizeof(near);
  std::array<char, NI_MAXHOST> text{};
  const bool known = ::connect(socket, target.get(), target.length()) == 0 &&
                     ::getsockname(socket, reinterpret_cast<sockaddr*>(&near), &length) == 0 &&
                     ::getnameinfo(reinterpret_cast<const sockaddr*>(&near), length, text.data(), text.size(), nullptr,
                                   0, NI_NUMERICHOST) == 0;
  ::close(socket);
  return known ? text.data() : std::string();
}

}  // namespace

SocketAddress::SocketAddress(const sockaddr* address, socklen_t length) : length_(length) {
  std::memcpy(&storage_, address, length);
}

std::uint16_t SocketAddress::port() const {
  return ntohs(storage_.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(storage_).sin6_port
                                              : reinterpret_cast<const sockaddr_in&>(storage_).sin_port);
}

std::vector<SocketAddress> resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int status = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (status != 0) {
    throw ConfigError(
        fmt::format("the host `{}`, where the ranks meet, is unknown here: {}", host, ::gai_strerror(status)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    addresses.emplace_back(each->ai_addr, each->ai_addrlen);
  }
  return addresses;
}

bool is_loopback(std::string_view host) { return host.starts_with("127.") || host == "localhost" || host == "::1"; }

void require_interface(const std::string& name) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return;  // the transport will find out, and say so
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::set<std::string> names;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) names.insert(each->ifa_name);
  if (!names.contains(name)) {
    throw ConfigError(fmt::format("there is no network interface `{}`; there are {}", name, fmt::join(names, ", ")));
  }
}

std::string address_towards(const World& world) {
  for (const SocketAddress& each : resolve(world.host, std::max<std::uint16_t>(world.port, 1))) {
    std::string address = near_end(each);
    if (address.empty()) continue;
    if (is_loopback(address) && !is_loopback(world.host) && world.local_size < world.size) {
      throw ConfigError(fmt::format(
          "the name `{}` leads to {} here, where ranks on other machines cannot come; give the interface or address",
          world.host, address));
    }
    return address;
  }
  throw ConfigError(fmt::format("there is no way from here to `{}`, where the ranks meet", world.host));
}

}  // namespace sotto
