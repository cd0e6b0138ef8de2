#include "sotto/advise/host_cost.h"

#include <algorithm>
#include <future>
#include <vector>

#include "sotto/advise/median.h"
#include "sotto/comm/transport.h"
#include "sotto/comm/world.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

constexpr std::size_t long_message = 1 << 20;
constexpr int rounds = 15;

// How long it takes until two ranks have each other's message.
double swap_seconds(Communicator& communicator, std::size_t bytes) {
  std::vector<std::byte> data(bytes), room(bytes);
  std::vector<double> seconds;
  for (int i = 0; i <= rounds; ++i) {
    communicator.barrier();
    const Timer timer;
    const Send send{1 - communicator.rank(), data};
    Recv recv{1 - communicator.rank(), room};
    communicator.exchange({&send, 1}, {&recv, 1});
    if (i > 0) seconds.push_back(timer.seconds());
  }
  return median(std::move(seconds));
}

}  // namespace

HostCost measure_host_cost() {
  const StoreServer store("127.0.0.1");
  const auto rank = [&](int number) {
    World world;
    world.rank = world.local_rank = number;
    world.size = world.local_size = 2;
    world.host = "127.0.0.1";
    world.port = store.port();
    TransportOptions options;
    options.address = "127.0.0.1";
    options.deadline = options.connect_deadline = std::chrono::seconds(30);
    const auto communicator = transport_table().require("backend", "gloo").connect(world, options);
    HostCost cost;
    cost.message = swap_seconds(*communicator, 4);
    cost.byte = std::max(0.0, swap_seconds(*communicator, long_message) - cost.message) / long_message;
    communicator->barrier();
    return cost;
  };
  auto other = std::async(std::launch::async, rank, 1);
  const HostCost cost = rank(0);
  other.get();
  return cost;
}

}  // namespace sotto
