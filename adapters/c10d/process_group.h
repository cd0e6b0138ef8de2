#pragma once

#include <chrono>
#include <memory>

#include "sotto/comm/communicator.h"

namespace c10d {
class ProcessGroup;
}

namespace sotto {

class Meeting;

// Makes a communicator over a c10d process group that somebody else owns, on the group's own point-to-point messages:
// nobody else may use the group in the meantime, and it must outlive the communicator. ConfigError unless it has a
// backend for CPU tensors. Backends other than Gloo are polled; one that cannot cancel a message, such as MPI, may end
// the process after a failure.
std::unique_ptr<Communicator> over_process_group(c10d::ProcessGroup& group, std::chrono::milliseconds deadline);

// Makes a meeting of the group's ranks in the group's store. Every rank calls this, in the same order; it does not
// wait. ConfigError for a group without a store (MPI): give over_process_group() its own group.
std::shared_ptr<Meeting> meet(c10d::ProcessGroup& group);

// Makes a communicator of the same ranks on its own Gloo connections. They are made through the meeting and, for a Gloo
// group, on its network devices. Others may use the group itself at the same time, and it need not support sending from
// the CPU. Collective: CommError if a rank does not come, or reports to the meeting that it gives up.
std::unique_ptr<Communicator> beside_process_group(c10d::ProcessGroup& group, std::shared_ptr<Meeting> meeting,
                                                   std::chrono::milliseconds deadline);

}  // namespace sotto
