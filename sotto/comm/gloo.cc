#include "sotto/comm/gloo.h"

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <future>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "sotto/comm/bounded.h"
#include "sotto/comm/c10d.h"
#include "sotto/comm/c10d_reason.h"
#include "sotto/comm/gloo_connect.h"
#include "sotto/comm/interfaces.h"
#include "sotto/comm/meeting.h"
#include "sotto/core/error.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

// The look-up of a name may block for very long, so it is bounded.
std::string near_address(const World& world, const TransportOptions& options) {
  const auto address =
      bounded(Clock::now() + options.connect_deadline, options.stop, [world] { return address_towards(world); });
  if (address) return *address;
  const int signal = options.stop ? options.stop() : 0;
  if (signal != 0) throw Stopped(fmt::format("rank {}: stopped by a signal", world.rank), signal);
  throw CommError(fmt::format("rank {}: nobody says where the host `{}` is", world.rank, world.host));
}

}  // namespace

std::unique_ptr<Communicator> connect_gloo(const World& world, const TransportOptions& options) {
  ignore_broken_pipes();
  auto settings = c10d::ProcessGroupGloo::Options::create(options.deadline);
  settings->threads = 1;  // only for collectives, which are not used
  try {
    if (!options.interface.empty()) {
      require_interface(options.interface);
      settings->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(options.interface));
    } else {
      const std::string address = options.address.empty() ? near_address(world, options) : options.address;
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
  return on_own_connections(std::move(meeting), gloo_connect(settings, world.rank, world.size), world.rank, world.size,
                            options.deadline, options.stop);
}

std::string check_gloo(const std::string& interface) {
  constexpr int rounds = 10;
  const StoreServer store("127.0.0.1");
  const auto rank = [&](int number) {
    World world;
    world.rank = world.local_rank = number;
    world.size = world.local_size = 2;
    world.host = "127.0.0.1";
    world.port = store.port();
    TransportOptions options;
    options.interface = interface;
    if (interface.empty()) options.address = "127.0.0.1";
    options.deadline = options.connect_deadline = std::chrono::seconds(10);
    const auto communicator = connect_gloo(world, options);
    std::vector<float> values(1 << 18, 1.0F);
    communicator->all_reduce(values);
    const Timer timer;
    for (int i = 0; i < rounds; ++i) communicator->all_reduce(values, ReduceOp::max);
    const double seconds = timer.seconds() / rounds;
    communicator->barrier();
    if (values.front() != 2.0F) throw Error("the sum over two ranks is wrong");
    return seconds;
  };
  std::future<double> other;
  try {
    other = std::async(std::launch::async, rank, 1);
  } catch (const std::system_error& error) {
    throw Error(fmt::format("no thread could be started for the second rank ({})", error.what()));
  }
  const double seconds = rank(0);
  other.get();
  return fmt::format("two ranks over {}: 1 MiB all-reduce in {:.2f} ms", interface.empty() ? "the loopback" : interface,
                     seconds * 1e3);
}

}  // namespace sotto
