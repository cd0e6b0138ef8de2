#include "sotto/comm/interfaces.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "sotto/comm/group/bounded_store.h"
#include "sotto/core/open_file.h"

namespace sotto {
namespace {

// The numeric form of an IPv4 or IPv6 address; "" if it is something else.
std::string text_of(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = address.sa_family == AF_INET
                          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr)
                          : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  return ::inet_ntop(address.sa_family, bytes, text.data(), text.size()) != nullptr ? text.data() : "";
}

// The local address of a connection to `target`, or nothing. Connecting a datagram socket sends nothing.
std::string near_end(const SocketAddress& target) {
  const Descriptor socket(::socket(target.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage near{};
  socklen_t length = sizeof(near);
  const bool known = ::connect(socket.get(), target.get(), target.length()) == 0 &&
                     ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&near), &length) == 0;
  return known ? text_of(reinterpret_cast<const sockaddr&>(near)) : std::string();
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

std::map<std::string, Interface> interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) throw CommError(fmt::format("getifaddrs: {}", std::strerror(errno)));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::map<std::string, Interface> found;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    Interface& interface = found[each->ifa_name];
    interface.up = (each->ifa_flags & IFF_UP) != 0 && (each->ifa_flags & IFF_RUNNING) != 0;
    const std::string address = each->ifa_addr != nullptr ? text_of(*each->ifa_addr) : "";
    if (!address.empty()) interface.addresses.push_back(address);
  }
  return found;
}

Interface require_interface(const std::string& name) {
  const auto all = interfaces();
  if (const auto found = all.find(name); found != all.end()) return found->second;
  std::vector<std::string_view> names;
  for (const auto& [known, interface] : all) names.push_back(known);
  throw ConfigError(fmt::format("there is no network interface `{}`; there are {}", name, fmt::join(names, ", ")));
}

std::string near_address(const World& world, std::chrono::milliseconds deadline, const Stop& stop) {
  // The look-up of a name may block for very long.
  const auto address = bounded(Clock::now() + deadline, stop, [world] { return address_towards(world); });
  if (address) return *address;
  throw_if_stopped(stop, fmt::format("rank {}: stopped by a signal", world.rank));
  throw CommError(fmt::format("rank {}: nobody says where the host `{}` is", world.rank, world.host));
}

void ignore_broken_pipes() {
  struct sigaction now {};
  if (::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) ::signal(SIGPIPE, SIG_IGN);
}

}  // namespace sotto
