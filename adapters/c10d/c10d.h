#pragma once

#include <chrono>
#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "sotto/comm/communicator.h"
#include "sotto/comm/group/meeting.h"
#include "sotto/comm/stop.h"

namespace sotto {

using GroupPtr = c10::intrusive_ptr<c10d::Backend>;
using GlooSettings = c10::intrusive_ptr<c10d::ProcessGroupGloo::Options>;

// Makes a communicator on Gloo connections of its own, and so for its clones and mailboxes. CommError if they cannot be
// made within the deadline; Stopped if `stop` says so in the meantime.
std::unique_ptr<Communicator> on_own_connections(std::shared_ptr<Meeting> meeting, GlooSettings settings, int rank,
                                                 int size, std::chrono::milliseconds deadline, const Stop& stop = {});

// Makes a communicator on a group that somebody else made and will close. Groups other than Gloo's are polled.
std::unique_ptr<Communicator> on_group(GroupPtr group, std::chrono::milliseconds deadline);

}  // namespace sotto
