#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace pybind11 {
class module_;
}

namespace sotto::python {

// Our exceptions become the Python classes of sotto._errors, also when they pass through torch: backward() does not
// change exceptions of Python types.
void bind_errors(pybind11::module_& module);

// How errors spell an option in Python: codec='topk(2)'.
std::string argument_spelling(std::string_view option, std::string_view value);

// Returns the same error as an exception that torch turns into the error's Python class.
std::exception_ptr for_torch(std::exception_ptr error);

}  // namespace sotto::python
