#pragma once

namespace pybind11 {
class module_;
}

namespace sotto::python {

// Into the extension module: Stepper, and TensorGossiper.
void bind_ranks(pybind11::module_& module);

}  // namespace sotto::python
