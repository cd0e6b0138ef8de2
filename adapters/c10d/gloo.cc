#include "adapters/c10d/gloo.h"

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <string>
#include <utility>

#include "adapters/c10d/c10d.h"
#include "adapters/c10d/c10d_reason.h"
#include "sotto/comm/broken_pipes.h"
#include "sotto/comm/group/meeting.h"
#include "sotto/comm/interfaces.h"
#include "sotto/core/error.h"

namespace sotto {
std::unique_ptr<Communicator> connect_gloo(const World& world, const TransportOptions& options) {
  ignore_broken_pipes();
  auto settings = c10d::ProcessGroupGloo::Options::create(options.deadline);
  settings->threads = 1;  // only for collectives, which are not used
  const bool by_interface = !options.interface.empty();
  std::string place = by_interface ? options.interface : options.address;
  if (by_interface) require_interface(place);
  const bool chosen_here = place.empty();
  if (chosen_here) place = near_address(world, options.connect_deadline, options.stop);
  try {
    settings->devices.push_back(by_interface ? c10d::ProcessGroupGloo::createDeviceForInterface(place)
                                             : c10d::ProcessGroupGloo::createDeviceForHostname(place));
  } catch (const std::exception& error) {
    const std::string what = fmt::format("Gloo cannot use {} {}: {}", by_interface ? "interface" : "address", place,
                                         plain_reason(error.what(), options.deadline));
    if (chosen_here) throw CommError(what);  // nobody asked for it, so something else is missing, such as threads
    throw ConfigError(what);
  }
  auto meeting = std::make_shared<Meeting>(world, "gloo", options.connect_deadline, options.stop);
  return on_own_connections(std::move(meeting), std::move(settings), world.rank, world.size, options.deadline,
                            options.stop);
}

}  // namespace sotto
