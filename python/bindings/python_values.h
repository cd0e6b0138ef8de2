#pragma once

#include <torch/csrc/utils/pybind.h>

#include <string>

#include "python/bindings/averager.h"
#include "python/bindings/state_values.h"

namespace sotto::python {

py::dict to_python(const AveragerStats& stats, const std::string& methods);
py::dict to_python(const StateValues& values);
// FileError for what is no state.
StateValues from_python(const py::dict& state);

}  // namespace sotto::python
