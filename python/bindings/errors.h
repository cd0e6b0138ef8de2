#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace pybind11 {
class module_;
}

namespace sotto::python {

// Our exceptions become the Python classes of sotto._errors, also on their way through torch: backward() lets
// exceptions of Python types through as they are.
void bind_errors(pybind11::module_& module);

// How errors write an option here: codec='topk(2)'.
std::string argument_spelling(std::string_view option, std::string_view value);

// The same error as an exception that torch turns into the Python class that belongs to it.
std::exception_ptr for_torch(std::exception_ptr error);

}  // namespace sotto::python
