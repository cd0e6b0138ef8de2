#include "sotto/comm/gloo.h"

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <string>
#include <utility>

#include "sotto/comm/broken_pipes.h"
#include "sotto/comm/c10d.h"
#include "sotto/comm/c10d_reason.h"
#include "sotto/comm/interfaces.h"
#include "sotto/comm/meeting.h"
#include "sotto/core/error.h"

namespace sotto {
std::unique_ptr<Communicator> connect_gloo(const World& world, const TransportOptions& options) {
  ignore_broken_pipes();
  auto settings = c10d::ProcessGroupGloo::Options::create(options.deadline);
  settings->threads = 1;  // only for collectives, which are not used
  try {
    if (!options.interface.empty()) {
      require_interface(options.interface);
      settings->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(options.interface));
    } else {
      const std::string address =
          options.address.empty() ? near_address(world, options.connect_deadline, options.stop) : options.address;
      settings->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address));
    }
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw ConfigError(fmt::format("Gloo cannot use {} {}: {}", options.interface.empty() ? "address" : "interface",
                                  options.interface.empty() ? options.address : options.interface,
                                  plain_reason(error.what(), options.deadline)));
  }
  auto meeting = std::make_shared<Meeting>(world, options.connect_deadline, options.stop);
  return on_own_connections(std::move(meeting), std::move(settings), world.rank, world.size, options.deadline,
                            options.stop);
}

}  // namespace sotto
