#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "job.h"
#include "sotto/comm/transport.h"

namespace sotto {

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

// The transports of the table that such ranks can use. The others have their own test programs (MPI), or need hardware
// that this machine lacks (NCCL).
inline std::vector<std::string> usable_transports() {
  std::vector<std::string> names;
  for (const Transport& transport : transport_table()) {
    if (transport.own_meeting.empty() && obstacle(transport, 8).empty()) names.emplace_back(transport.name);
  }
  return names;
}

// Runs a test over each usable transport; the parameter is its name.
class OverTransport : public Job, public testing::WithParamInterface<std::string> {
 protected:
  std::vector<Ended> run(int ranks, std::chrono::milliseconds deadline,
                         const std::function<void(Communicator&)>& body) const {
    return run_over(transport_table().require("backend", GetParam()).connect, ranks, deadline, body);
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
    return run_over(transport_table().require("backend", name).connect, ranks, deadline, body);
  }
};

}  // namespace sotto
