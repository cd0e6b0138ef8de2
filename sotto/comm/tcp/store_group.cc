#include "sotto/comm/tcp/store_group.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <fstream>
#include <utility>

#include "sotto/comm/interfaces.h"
#include "sotto/comm/tcp/door.h"
#include "sotto/comm/tcp/tcp.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

// The same for two processes that reach each other over the loopback: of one boot of one machine, and one network
// namespace. Two machines never have the same.
std::string this_network() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  struct stat space {};
  if (boot.empty() || ::stat("/proc/self/ns/net", &space) != 0) return "unknown: " + this_process();
  return fmt::format("{} {}", boot, space.st_ino);
}

// Whether ranks run on several hosts. Every rank calls compare() before all have met, and the answer stands when they
// have.
class Hosts {
 public:
  explicit Hosts(StorePtr store) : store_(std::move(store)) {}
  void compare() {
    if (store_->compare_set("host", "", this_network()) != this_network()) store_->add("elsewhere", 1);
  }
  bool are_several() { return store_->check("elsewhere"); }

 private:
  StorePtr store_;
};

asio::ip::address address_of(const StoreGroupOptions& options, int size) {
  if (options.interface.empty() && options.near_host.empty()) {
    throw ConfigError(fmt::format("{}: ranks run on several hosts; say which network interface leads to the others",
                                  named("interface")));
  }
  if (options.interface.empty()) {
    World world;
    world.size = size;
    world.host = options.near_host;
    return asio::ip::make_address(near_address(world, options.deadline, {}));
  }
  const Interface interface = require_interface(options.interface);
  if (!interface.addresses.empty()) return asio::ip::make_address(interface.addresses.front());
  throw ConfigError(fmt::format("{}: it has no address", named("interface", options.interface)));
}

// The secret of the group, which rank 0 makes.
Secret shared_secret(Store& store, int rank) {
  if (rank > 0) {
    if (const auto secret = read_secret_text(store.get("secret"))) return *secret;
    throw CommError("what rank 0 left in the store as the secret is none; has somebody else written there?");
  }
  const Secret secret = new_secret();
  store.set("secret", secret_text(secret));
  return secret;
}

}  // namespace

StoreGroup connect_at(std::shared_ptr<Meeting> meeting, int rank, int size, const StoreGroupOptions& options) {
  const auto deadline = std::min(options.deadline, Deadline::longest);
  ignore_broken_pipes();
  const StorePtr section = meeting->section("group");
  try {
    Hosts hosts(section);
    hosts.compare();
    meeting->wait_for_all(deadline);
    TcpSettings settings;
    settings.address = asio::ip::address_v4::loopback();
    settings.deadline = deadline;
    settings.options.streams = options.streams;
    if (hosts.are_several()) {
      settings.address = address_of(options, size);
      if (options.encrypt) settings.tls = std::make_shared<const Tls>(shared_secret(*section, rank));
    }
    const bool encrypts = settings.tls != nullptr;
    return {connect_tcp(std::move(meeting), settings, rank, size), encrypts};
  } catch (const std::exception& error) {
    if (meeting) meeting->give_up(error.what());
    throw;
  }
}

}  // namespace sotto
