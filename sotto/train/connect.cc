#include "sotto/train/connect.h"

#include <chrono>
#include <utility>

#include "sotto/comm/shaped.h"
#include "sotto/comm/transport.h"
#include "sotto/train/stop_signal.h"

namespace sotto {

std::unique_ptr<Communicator> connect_ranks(const Choices& choices, const World& world) {
  const TrainOptions& options = choices.options;
  const std::chrono::seconds deadline(options.deadline);
  auto communicator = choices.transport->connect(world, {.interface = options.interface,
                                                         .address = options.address,
                                                         .deadline = deadline,
                                                         .connect_deadline = deadline,
                                                         .stop = StopSignal::caught});
  if (!options.link) return communicator;
  return make_shaped(std::move(communicator), choices.links);
}

}  // namespace sotto
