#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "sotto/comm/communicator.h"
#include "sotto/comm/meeting.h"

namespace sotto {

// A kind of connections that take batches of tensors on a device, and do not tell how long a message was: NCCL.
struct StagedBackend {
  std::string name;
  c10::Device device;
  // The ranks meet in the store; the connections are nobody else's. They coalesce, and can be aborted.
  std::function<c10::intrusive_ptr<c10d::Backend>(const c10::intrusive_ptr<c10d::Store>& store)> connect;
};

// A communicator that copies messages to tensors on that device and back. An exchange is two batches, of the lengths of
// its messages and then of these, each of which ends as a whole. So there must be an order of all exchanges, with what
// one rank sends and its peer receives at the same place: as those of all collectives and aggregators are. There is no
// mailbox.
std::unique_ptr<Communicator> make_staged(std::shared_ptr<Meeting> meeting, StagedBackend backend, int rank, int size,
                                          std::chrono::milliseconds deadline);

}  // namespace sotto
