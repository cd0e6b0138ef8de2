#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "sotto/comm/communicator.h"
#include "sotto/comm/meeting.h"
#include "sotto/comm/stop.h"

namespace sotto {

using GroupPtr = c10::intrusive_ptr<c10d::Backend>;
// Makes Gloo connections between ranks that meet in the store; used for a communicator, its clones and its mailboxes.
using Connect = std::function<GroupPtr(const c10::intrusive_ptr<c10d::Store>& store)>;

// Makes a communicator on connections of its own. CommError if they cannot be made within the deadline; Stopped if
// `stop` says so in the meantime.
std::unique_ptr<Communicator> on_own_connections(std::shared_ptr<Meeting> meeting, Connect connect, int rank, int size,
                                                 std::chrono::milliseconds deadline, const Stop& stop = {});

// Makes a communicator on a group that somebody else made and will close. Groups other than Gloo's are polled.
std::unique_ptr<Communicator> on_group(GroupPtr group, std::chrono::milliseconds deadline);

}  // namespace sotto
