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

// Collective: calls `make` with connections of our own between the ranks of the group, which the meeting makes. Without
// a meeting the group itself is used, which must then be ours alone. When one rank refuses, the others are told why.
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

// Destructors that join a thread must not keep other Python threads waiting. In a process that was forked since, as
// workers of a DataLoader are, those threads are not there and cannot be joined: there the object is left as it is.
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
