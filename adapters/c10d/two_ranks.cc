#include "adapters/c10d/two_ranks.h"

#include <fmt/format.h>

#include <future>
#include <system_error>
#include <vector>

#include "adapters/c10d/store_service.h"
#include "sotto/core/error.h"
#include "sotto/core/timer.h"

namespace sotto {

void run_two_ranks(decltype(Transport::make) connect, const std::string& interface, std::chrono::milliseconds deadline,
                   const std::function<void(Communicator&)>& work) {
  const StoreServer store(c10d_stores(), "127.0.0.1");
  const auto rank = [&](int number) {
    World world;
    world.rank = world.local_rank = number;
    world.size = world.local_size = 2;
    world.host = "127.0.0.1";
    world.port = store.port();
    world.stores = &c10d_stores();
    TransportOptions options;
    options.interface = interface;
    if (interface.empty()) options.address = "127.0.0.1";
    options.deadline = options.connect_deadline = deadline;
    const auto communicator = connect(world, options);
    work(*communicator);
    communicator->barrier();
  };
  std::future<void> other;
  try {
    other = std::async(std::launch::async, rank, 1);
  } catch (const std::system_error& error) {
    throw Error(fmt::format("no thread could be started for the second rank ({})", error.what()));
  }
  rank(0);
  other.get();
}

std::string try_two_ranks(decltype(Transport::make) connect, const std::string& interface) {
  constexpr int rounds = 10;
  double seconds = 0;
  run_two_ranks(connect, interface, std::chrono::seconds(10), [&](Communicator& communicator) {
    std::vector<float> values(1 << 18, 1.0F);
    communicator.all_reduce(values);
    const Timer timer;
    for (int i = 0; i < rounds; ++i) communicator.all_reduce(values, ReduceOp::max);
    if (communicator.rank() == 0) seconds = timer.seconds() / rounds;
    if (values.front() != 2.0F) throw Error("the sum over two ranks is wrong");
  });
  return fmt::format("two ranks over {}: 1 MiB all-reduce in {:.2f} ms", interface.empty() ? "the loopback" : interface,
                     seconds * 1e3);
}

}  // namespace sotto
