#pragma once

namespace pybind11 {
class module_;
}

namespace sotto::python {

// Adds Stepper and TensorGossiper to the extension module.
void bind_ranks(pybind11::module_& module);
// Adds Member.
void bind_member(pybind11::module_& module);
// Adds run_command().
void bind_program(pybind11::module_& module);

}  // namespace sotto::python
