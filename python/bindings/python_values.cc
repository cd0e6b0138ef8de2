#include "python/bindings/python_values.h"

#include <ATen/ops/empty.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>

#include <cstring>

#include "sotto/core/error.h"

namespace sotto::python {
namespace {

struct ToPython {
  template <class Value>
  static at::Tensor tensor(const std::vector<Value>& values, at::ScalarType type) {
    at::Tensor tensor = at::empty({static_cast<std::int64_t>(values.size())}, type);
    if (!values.empty()) std::memcpy(tensor.data_ptr(), values.data(), values.size() * sizeof(Value));
    return tensor;
  }
  py::object operator()(const std::vector<float>& values) const { return py::cast(tensor(values, at::kFloat)); }
  py::object operator()(const std::vector<std::uint8_t>& bytes) const { return py::cast(tensor(bytes, at::kByte)); }
  py::object operator()(std::uint64_t value) const { return py::int_(value); }
};

template <class Value>
std::vector<Value> to_vector(const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().cpu().contiguous();
  const auto* data = static_cast<const Value*>(values.data_ptr());
  return {data, data + values.numel()};
}

StateValue value_of(const std::string& name, const py::handle& value) {
  if (py::isinstance<py::int_>(value)) {
    try {
      return value.cast<std::uint64_t>();
    } catch (const py::cast_error&) {
      throw FileError("`" + name + "` in the state is " + std::string(py::str(value)) + "; wanted is a count");
    }
  }
  if (THPVariable_Check(value.ptr())) {
    const auto tensor = value.cast<at::Tensor>();
    if (tensor.scalar_type() == at::kFloat) return to_vector<float>(tensor);
    if (tensor.scalar_type() == at::kByte) return to_vector<std::uint8_t>(tensor);
  }
  throw FileError("`" + name + "` in the state is neither a number nor a tensor of floats or bytes");
}

}  // namespace

py::dict to_python(const AveragerStats& stats, const std::string& methods) {
  py::dict dict;
  dict["steps"] = stats.steps;
  dict["bytes_sent"] = stats.bytes_sent;
  dict["bytes_received"] = stats.bytes_received;
  dict["dense_bytes"] = stats.dense_bytes;
  dict["encode_seconds"] = stats.timings.encode;
  dict["wire_seconds"] = stats.timings.network;
  dict["decode_seconds"] = stats.timings.decode;
  dict["methods"] = methods;
  return dict;
}

py::dict to_python(const StateValues& values) {
  py::dict dict;
  for (const auto& [name, value] : values) dict[py::str(name)] = std::visit(ToPython{}, value);
  return dict;
}

StateValues from_python(const py::dict& state) {
  StateValues values;
  for (const auto& [key, value] : state) {
    const auto name = key.cast<std::string>();
    values.emplace(name, value_of(name, value));
  }
  return values;
}

}  // namespace sotto::python
