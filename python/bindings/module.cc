// The extension module sotto._C: membership of a job whose ranks come and go, and commands of the program.
#include <torch/csrc/utils/pybind.h>

#include "python/bindings/errors.h"
#include "python/bindings/module.h"

PYBIND11_MODULE(_C, module) {
  using namespace sotto::python;
  bind_errors(module);
  bind_member(module);
  bind_program(module);
}
