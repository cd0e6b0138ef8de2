#pragma once

#include <chrono>
#include <memory>

#include "sotto/comm/communicator.h"

namespace c10d {
class ProcessGroup;
}

namespace sotto {

class Meeting;

// A communicator over a c10d process group that somebody else owns, on its own point-to-point messages: nobody else may
// use the group meanwhile, and it must outlive the communicator. It needs a backend for CPU tensors, ConfigError
// otherwise. Backends other than Gloo are polled; one that cannot give a message up, such as MPI, may end the process
// after a failure.
std::unique_ptr<Communicator> over_process_group(c10d::ProcessGroup& group, std::chrono::milliseconds deadline);

// A meeting of the group's ranks in its store. Every rank makes it, in the same order; nobody is waited for.
// ConfigError for a group without a store (MPI): give over_process_group() a group of its own.
std::shared_ptr<Meeting> meet(c10d::ProcessGroup& group);

// The same ranks on Gloo connections of our own, which are made through the meeting and, when it is a Gloo group, on
// its network devices: the group itself may be used by others at the same time, and need not be one that can send from
// the CPU. Collective: CommError where a rank does not come, or reports to the meeting that it gives up.
std::unique_ptr<Communicator> beside_process_group(c10d::ProcessGroup& group, std::shared_ptr<Meeting> meeting,
                                                   std::chrono::milliseconds deadline);

}  // namespace sotto
