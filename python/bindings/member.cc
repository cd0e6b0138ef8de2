#include "python/bindings/member.h"

#include <pybind11/functional.h>
#include <torch/csrc/utils/pybind.h>

#include <csignal>
#include <exception>
#include <functional>
#include <utility>

#include "adapters/c10d/store.h"
#include "adapters/c10d/transports.h"
#include "python/bindings/connected.h"
#include "python/bindings/module.h"

namespace sotto::python {
namespace {

World world_at(const std::string& coordinator, std::chrono::seconds wait, const Stop& stop) {
  World world;
  const MeetingPlace place = read_meeting_place("coordinator='" + coordinator + "'", coordinator);
  world.host = place.host;
  world.port = place.port;
  world.stores = &c10d_stores();
  world.prefix = "sotto";
  world.elastic = world.coordinated = true;
  world.coordinator_wait = wait;
  world.generation = 1;
  world.id = join_job(world, {}, stop);
  return world;
}

// Runs work that waits, without the interpreter lock. Now and then Python handles signals: an exception of a handler
// ends the wait, and so does a number other than 0 that `asked` returns.
template <class Work>
auto interruptible(const std::function<int()>& asked, Work work) {
  std::exception_ptr raised;
  const Stop stop = [&] {
    const py::gil_scoped_acquire acquired;
    if (raised) return SIGINT;
    try {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      return asked ? asked() : 0;
    } catch (...) {  // any exception of Python
      raised = std::current_exception();
      return SIGINT;
    }
  };
  const py::gil_scoped_release released;
  try {
    auto result = work(stop);
    if (raised) std::rethrow_exception(raised);  // the work has come to its end in spite of it
    return result;
  } catch (const Stopped&) {
    if (raised) std::rethrow_exception(raised);
    throw;
  }
}

}  // namespace

Member::Member(const std::string& coordinator, std::chrono::seconds wait, const Stop& stop)
    : world_(world_at(coordinator, wait, stop)), heartbeat_(std::in_place, world_) {}

bool Member::join(const Stop& stop) {
  const auto world = join_generation(world_, stop);
  if (world) enter(*world);
  return world.has_value();
}

void Member::next(const std::string& reason, bool moved, const Stop& stop) {
  meeting_.reset();
  enter(next_generation(world_, reason, moved, stop));
}

c10::intrusive_ptr<c10d::Store> Member::meet(std::chrono::milliseconds deadline, const Stop& stop) {
  meeting_ = std::make_unique<Meeting>(world_, "Python's process group", deadline, stop);
  return as_c10d(meeting_->section("python"), deadline);
}

void Member::leave(const std::string& words, bool failed) {
  meeting_.reset();
  if (heartbeat_) heartbeat_->farewell({.failed = failed, .words = words});
  heartbeat_.reset();
}

void Member::enter(const World& world) {
  world_ = world;
  heartbeat_->enter(world.generation);
}

void bind_member(py::module_& module) {
  using Asked = std::function<int()>;
  py::class_<Member, std::shared_ptr<Member>>(module, "Member")
      .def(py::init([](const std::string& coordinator, double wait, const Asked& asked) {
             return interruptible(asked, [&](const Stop& stop) {
               const auto seconds = std::chrono::ceil<std::chrono::seconds>(milliseconds(wait));
               return std::shared_ptr<Member>(new Member(coordinator, seconds, stop), EndReleased());
             });
           }),
           py::arg(), py::arg(), py::arg())
      .def("join",
           [](Member& member, const Asked& asked) {
             return interruptible(asked, [&](const Stop& stop) { return member.join(stop); });
           })
      .def("next",
           [](Member& member, const std::string& reason, bool moved, const Asked& asked) {
             interruptible(asked, [&](const Stop& stop) {
               member.next(reason, moved, stop);
               return true;
             });
           })
      .def("meet",
           [](Member& member, double deadline, const Asked& asked) {
             return interruptible(asked, [&](const Stop& stop) { return member.meet(milliseconds(deadline), stop); });
           })
      .def("id", &Member::id)
      .def("rank", &Member::rank)
      .def("ranks", &Member::ranks)
      .def("generation", &Member::generation)
      .def("failure", &Member::failure)
      .def("wants_change", &Member::wants_change)
      .def("leave", &Member::leave, py::call_guard<py::gil_scoped_release>());
}

}  // namespace sotto::python
