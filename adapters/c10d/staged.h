#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "sotto/comm/communicator.h"
#include "sotto/comm/group/meeting.h"

namespace sotto {

// A kind of connections that transfers batches of tensors on a device, and does not report the length of a message:
// NCCL.
struct StagedBackend {
  std::string name;
  c10::Device device;
  // Connects the ranks, which meet in the store. The connections are exclusive, coalesce, and can be aborted.
  std::function<c10::intrusive_ptr<c10d::Backend>(const c10::intrusive_ptr<c10d::Store>& store)> connect;
};

// Makes a communicator that copies messages to tensors on that device and back. An exchange is two batches: the lengths
// of its messages and then the messages; a batch completes as a whole. So all exchanges must have a common order in
// which a send and its receive have the same place, as the exchanges of all collectives and aggregators do. There is no
// mailbox.
std::unique_ptr<Communicator> make_staged(std::shared_ptr<Meeting> meeting, StagedBackend backend, int rank, int size,
                                          std::chrono::milliseconds deadline);

}  // namespace sotto
