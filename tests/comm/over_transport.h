#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include "adapters/c10d/transports.h"
#include "job.h"
#include "sotto/comm/relay/relay.h"
#include "sotto/comm/secret.h"
#include "sotto/comm/transport.h"

namespace sotto {

// A secret in a file that goes with the process that first asked for it.
class SecretFile {
 public:
  static const std::string& path() {
    static const SecretFile file;
    [[maybe_unused]] static const int registered = std::at_quick_exit([] { file.remove(); });  // tests/support/main.cc
    return file.path_;
  }
  ~SecretFile() { remove(); }
  SecretFile(const SecretFile&) = delete;
  SecretFile& operator=(const SecretFile&) = delete;

 private:
  SecretFile() { write_secret(new_secret(), path_); }
  void remove() const {
    if (::getpid() == maker_) std::filesystem::remove(path_);
  }
  pid_t maker_ = ::getpid();
  std::string path_ = std::filesystem::temp_directory_path() / ("sotto-test-secret-" + std::to_string(maker_));
};

// A relay in its own process, which goes with the process that first asked for it.
inline std::string relay_place() {
  static const ServerProcess server([](const auto& ready) {
    std::promise<int> port;
    const std::thread relay([&] {
      serve_relay(
          {"127.0.0.1", 0}, [&](int chosen) { port.set_value(chosen); }, [] { return 0; });
    });
    ready(port.get_future().get());
  });
  return "127.0.0.1:" + std::to_string(server.port());
}

// Why ranks that the launcher starts on this machine cannot use the transport; empty if they can.
inline std::string obstacle(const Transport& transport, int ranks) {
  World world;
  world.starter = "sotto";
  world.size = world.local_size = ranks;
  try {
    transport.require(world);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

// The transport `tcp` with a secret, whose file is written before ranks are forked; with several connections to each
// peer; and through a relay, which is started before.
inline constexpr std::string_view private_tcp = "tcp_with_a_secret", striped_tcp = "tcp_with_streams",
                                  relayed_tcp = "tcp_through_a_relay";

inline std::unique_ptr<Communicator> connect_private_tcp(const World& world, const TransportOptions& options) {
  TransportOptions with = options;
  with.secret = SecretFile::path();
  return transport_table().require("backend", "tcp").connect(world, with);
}

inline std::unique_ptr<Communicator> connect_striped_tcp(const World& world, const TransportOptions& options) {
  TransportOptions with = options;
  with.streams = 3;
  return transport_table().require("backend", "tcp").connect(world, with);
}

inline std::unique_ptr<Communicator> connect_relayed_tcp(const World& world, const TransportOptions& options) {
  TransportOptions with = options;
  with.relay = relay_place();
  return connect_private_tcp(world, with);
}

inline auto connect_of(const std::string& name) {
  if (name == striped_tcp) return &connect_striped_tcp;
  if (name != private_tcp && name != relayed_tcp) return transport_table().require("backend", name).make;
  SecretFile::path();
  if (name == private_tcp) return &connect_private_tcp;
  relay_place();
  return &connect_relayed_tcp;
}

// The transports of the table that such ranks can use, and those three of `tcp`. The others have their own test
// programs (MPI), or need hardware that this machine lacks (NCCL).
inline std::vector<std::string> usable_transports() {
  std::vector<std::string> names;
  for (const Transport& transport : transport_table()) {
    if (transport.own_meeting.empty() && obstacle(transport, 8).empty()) names.emplace_back(transport.name);
  }
  names.emplace_back(private_tcp);
  names.emplace_back(striped_tcp);
  names.emplace_back(relayed_tcp);
  return names;
}

// Runs a test over each usable transport; the parameter is its name.
class OverTransport : public Job, public testing::WithParamInterface<std::string> {
 protected:
  std::vector<Ended> run(int ranks, std::chrono::milliseconds deadline,
                         const std::function<void(Communicator&)>& body) const {
    return run_over(connect_of(GetParam()), ranks, deadline, body);
  }
};

// Runs a test over each usable transport with several numbers of ranks.
class OverTransportWithRanks : public Job, public testing::WithParamInterface<std::tuple<std::string, int>> {
 public:
  static std::string name_of(const testing::TestParamInfo<ParamType>& info) {
    return std::get<0>(info.param) + std::to_string(std::get<1>(info.param));
  }

 protected:
  std::vector<Ended> run(std::chrono::milliseconds deadline, const std::function<void(Communicator&)>& body) const {
    const auto& [name, ranks] = GetParam();
    return run_over(connect_of(name), ranks, deadline, body);
  }
};

}  // namespace sotto
