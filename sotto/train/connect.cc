#include "sotto/train/connect.h"

#include <chrono>
#include <utility>

#include "sotto/comm/shaped.h"
#include "sotto/comm/transport.h"
#include "sotto/train/stop_signal.h"

namespace sotto {

std::unique_ptr<Communicator> connect_ranks(const TrainOptions& options, const World& world, const Links& links) {
  const std::chrono::seconds deadline(options.deadline);
  auto communicator = chosen_transport(options).connect(world, {.interface = options.interface,
                                                                .address = options.address,
                                                                .deadline = deadline,
                                                                .connect_deadline = deadline,
                                                                .stop = StopSignal::caught});
  if (options.link.empty()) return communicator;
  return make_shaped(std::move(communicator), links);
}

}  // namespace sotto
