#include "app/advise/host_cost.h"

#include <algorithm>
#include <vector>

#include "adapters/c10d/transports.h"
#include "adapters/c10d/two_ranks.h"
#include "sotto/core/median.h"
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
  HostCost cost;
  const auto connect = transport_table().begin()->make;
  run_two_ranks(connect, "", std::chrono::seconds(30), [&](Communicator& communicator) {
    const double message = swap_seconds(communicator, 4), long_one = swap_seconds(communicator, long_message);
    if (communicator.rank() == 0) cost = {message, std::max(0.0, long_one - message) / long_message};
  });
  return cost;
}

}  // namespace sotto
