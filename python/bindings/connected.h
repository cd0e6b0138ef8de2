#pragma once

#include <torch/csrc/utils/pybind.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <memory>

#include "adapters/c10d/process_group.h"
#include "sotto/comm/communicator.h"
#include "sotto/comm/group/meeting.h"

namespace sotto::python {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

inline std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

// Collective: calls `make` with a communicator of the group's ranks, on connections that are made through the meeting.
// Without a meeting (null) the communicator uses the group itself, which nobody else may use then. When `make` throws
// on one rank, the other ranks are told why.
template <class Make>
auto with_communicator(c10d::ProcessGroup& group, const std::shared_ptr<Meeting>& meeting, double timeout, Make make) {
  const std::shared_ptr<Communicator> communicator = meeting
                                                         ? beside_process_group(group, meeting, milliseconds(timeout))
                                                         : over_process_group(group, milliseconds(timeout));
  try {
    return make(communicator);
  } catch (const std::exception& error) {
    communicator->give_up(error.what());
    throw;
  }
}

// Deletes an object whose destructor joins a thread, without the interpreter lock, so that other Python threads need
// not wait. In a process that was forked later, such as a worker of a DataLoader, that thread does not exist and cannot
// be joined; the object is not deleted there.
struct EndReleased {
  pid_t maker = ::getpid();
  template <class Object>
  void operator()(Object* object) const {
    if (::getpid() != maker) return;
    if (PyGILState_Check() == 0) {
      delete object;
      return;
    }
    const py::gil_scoped_release released;
    delete object;
  }
};

}  // namespace sotto::python
