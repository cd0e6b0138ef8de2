#include "sotto/cli/torch_file.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <fmt/format.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "sotto/core/error.h"

namespace sotto {
namespace {

constexpr std::string_view magic("PK\x03\x04", 4);

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

// LibTorch believes the sizes and strides of a pickle. Values that stand for several elements are refused, too: a few
// bytes could stand for terabytes.
bool lies_within_storage(const at::Tensor& tensor) {
  const auto elements = static_cast<std::int64_t>(tensor.storage().nbytes() / tensor.element_size());
  std::int64_t last = tensor.storage_offset();
  std::int64_t count = 1;
  if (last < 0 || last > elements) return false;
  for (std::size_t d = 0; d < tensor.sizes().size(); ++d) {
    const std::int64_t size = tensor.sizes()[d];
    const std::int64_t stride = tensor.strides()[d];
    if (size == 0) return true;
    if (size < 0 || stride < 0 || count > elements / size || (size > 1 && stride > elements / (size - 1))) return false;
    count *= size;
    last += (size - 1) * stride;
    if (last >= elements) return false;
  }
  return count == 0 || last < elements;
}

// What a file holds, by name; `name` is that of the value itself.
void collect(const c10::IValue& value, const std::string& name, std::vector<NamedTensor>& found) {
  if (value.isTensor()) {
    found.push_back({name.empty() ? "values" : name, value.toTensor()});
    return;
  }
  if (!name.empty()) throw WireError(fmt::format("`{}` is a {}, not a tensor", name, value.tagKind()));
  if (value.isGenericDict()) {
    for (const auto& item : value.toGenericDict()) {
      if (!item.key().isString()) throw WireError(fmt::format("a key of its dictionary is a {}", item.key().tagKind()));
      collect(item.value(), item.key().toStringRef(), found);
    }
  } else if (value.isList() || value.isTuple()) {
    const auto items = value.isList() ? value.toList().vec() : value.toTupleRef().elements().vec();
    for (std::size_t i = 0; i < items.size(); ++i) collect(items[i], fmt::format("{}", i), found);
  } else {
    throw WireError(fmt::format("it holds a {}, not a tensor, or a list or dictionary of tensors", value.tagKind()));
  }
}

// The values of all, one after the other.
GradientFile joined(std::span<const NamedTensor> tensors) {
  GradientFile file;
  std::vector<Segment> segments;
  for (const NamedTensor& item : tensors) {
    const at::Tensor& tensor = item.tensor;
    if (tensor.layout() != at::kStrided || !tensor.device().is_cpu() || !at::isFloatingType(tensor.scalar_type())) {
      throw WireError(
          fmt::format("`{}` is no dense tensor of floats on the CPU, but {} on {}; save tensor.float().cpu()",
                      item.name, toString(tensor.scalar_type()), tensor.device().str()));
    }
    if (!lies_within_storage(tensor)) {
      throw WireError(
          fmt::format("`{}` is a view of values that the file does not hold, or of one value several times; "
                      "save tensor.clone()",
                      item.name));
    }
    const at::Tensor floats = tensor.to(at::kFloat).contiguous();
    segments.push_back(
        {item.name, file.values.size(), tensor.dim() == 0 ? std::vector<std::int64_t>{1} : tensor.sizes().vec()});
    const float* data = floats.const_data_ptr<float>();
    file.values.insert(file.values.end(), data, data + floats.numel());
  }
  file.layout = Layout(std::move(segments), file.values.size());
  return file;
}

}  // namespace

bool is_torch_file(std::span<const std::byte> file) {
  return file.size() >= magic.size() && std::memcmp(file.data(), magic.data(), magic.size()) == 0;
}

GradientFile read_torch_file(std::span<const std::byte> file) {
  std::vector<NamedTensor> tensors;
  try {
    const auto* bytes = reinterpret_cast<const char*>(file.data());
    collect(torch::jit::pickle_load(std::vector<char>(bytes, bytes + file.size())), "", tensors);
    return joined(tensors);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string_view what = error.what();
    throw WireError(
        fmt::format("LibTorch cannot read it; save a tensor, or a plain list or dictionary of tensors, such as "
                    "dict(model.state_dict()): {}",
                    what.substr(0, std::min(what.find('\n'), std::size_t{160}))));
  }
}

}  // namespace sotto
