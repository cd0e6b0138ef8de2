#include "python/bindings/errors.h"

#include <pybind11/gil_safe_call_once.h>
#include <torch/csrc/Exceptions.h>

#include <algorithm>
#include <string>

#include "sotto/core/error.h"

namespace sotto::python {
namespace {

namespace py = pybind11;

struct Classes {
  py::object error, config, wire, comm, file, numeric;
};

// Python calls translators without an argument of our own, so a plain function must find the classes.
const Classes& classes() {
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<Classes> storage;
  return storage
      .call_once_and_store_result([] {
        const auto from = py::module_::import("sotto._errors");
        return Classes{from.attr("Error"),     from.attr("ConfigError"), from.attr("WireError"),
                       from.attr("CommError"), from.attr("FileError"),   from.attr("NumericError")};
      })
      .get_stored();
}

PyObject* class_of(const Error& error) {
  const Classes& all = classes();
  if (dynamic_cast<const ConfigError*>(&error) != nullptr) return all.config.ptr();
  if (dynamic_cast<const WireError*>(&error) != nullptr) return all.wire.ptr();
  if (dynamic_cast<const CommError*>(&error) != nullptr) return all.comm.ptr();
  if (dynamic_cast<const FileError*>(&error) != nullptr) return all.file.ptr();
  if (dynamic_cast<const NumericError*>(&error) != nullptr) return all.numeric.ptr();
  return all.error.ptr();
}

std::string text_of(const Error& error) {
  const auto* config = dynamic_cast<const ConfigError*>(&error);
  return config == nullptr ? error.what() : config->text(argument_spelling);
}

class TorchError final : public torch::PyTorchError {
 public:
  explicit TorchError(const Error& error) : PyTorchError(text_of(error)), class_(class_of(error)) {}
  PyObject* python_type() override { return class_; }

 private:
  PyObject* class_;
};

}  // namespace

void bind_errors(py::module_& /*module*/) {
  classes();  // while the interpreter lock is held
  py::register_local_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const Error& ours) {
      PyErr_SetString(class_of(ours), text_of(ours).c_str());
    }
  });
}

std::exception_ptr for_torch(std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& ours) {
    return std::make_exception_ptr(TorchError(ours));
  } catch (...) {
    return error;
  }
}

std::string argument_spelling(std::string_view option, std::string_view value) {
  std::string name = option == "buckets" ? "bucket_mb" : std::string(option);
  if (!name.ends_with(']')) std::ranges::replace(name, '-', '_');  // no name of a parameter in rules[..]
  return value.empty() ? name : name + "='" + std::string(value) + "'";
}

}  // namespace sotto::python
