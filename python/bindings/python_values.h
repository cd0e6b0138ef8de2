#pragma once

#include <torch/csrc/utils/pybind.h>

#include <string>
#include <vector>

#include "sotto/capi/gradient_averager.h"
#include "sotto/capi/state_values.h"

namespace sotto::python {

py::dict to_python(const AveragerStats& stats, const std::string& methods);
py::dict to_python(const StateValues& values);
// The statistics and the state of an engine (Hook, Stepper).
template <class Engine>
py::dict stats_of(Engine& engine) {
  AveragerStats stats;
  std::string methods;
  {
    const py::gil_scoped_release released;
    stats = engine.stats();
    methods = engine.methods();
  }
  return to_python(stats, methods);
}
template <class Engine>
py::dict state_of(Engine& engine) {
  StateValues values;
  {
    const py::gil_scoped_release released;
    values = engine.state();
  }
  return to_python(values);
}
// The result of engine.gather() on this rank.
template <class Engine>
std::vector<py::bytes> gather_bytes(Engine& engine, const std::string& own) {
  std::vector<std::string> all;
  {
    const py::gil_scoped_release released;
    all = engine.gather(own);
  }
  return {all.begin(), all.end()};
}
// Reads an argument that the package, which has checked it, passed by keyword.
template <class Value>
void read(const py::kwargs& given, const char* name, Value& value) {
  value = given[name].cast<Value>();
}
// FileError if the object is no state.
StateValues from_python(const py::dict& state);

}  // namespace sotto::python
