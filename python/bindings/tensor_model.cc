#include "python/bindings/tensor_model.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "python/bindings/tensor_types.h"
#include "sotto/core/error.h"

namespace sotto::python {

TensorModel::TensorModel(std::vector<std::pair<std::string, at::Tensor>> parameters)
    : parameters_(std::move(parameters)) {
  for (const auto& [name, tensor] : parameters_) {
    if (tensor.layout() != at::kStrided || tensor.scalar_type() != at::kFloat) {
      throw ConfigError(
          fmt::format("parameter {} is of type {}; ranks mix models in float32, where small steps are not lost: keep "
                      "the parameters in it, and compute in torch.autocast",
                      name, c10::toString(tensor.scalar_type())));
    }
    // In the memory order of a dense tensor of this shape, so that copying a dense one is straightforward.
    const at::Tensor dense = at::empty_like(tensor, tensor.options().device(at::kMeta));
    sizes_.push_back(dense.sizes().vec());
    strides_.push_back(dense.strides().vec());
    layout_.append(name, memory_shape(dense));
  }
  if (layout_.numel() == 0) throw ConfigError("the module has no parameter that is trained");
}

at::Tensor TensorModel::place_of(std::size_t parameter, float* values) const {
  return at::from_blob(values + layout_.segments()[parameter].offset, sizes_[parameter], strides_[parameter],
                       at::TensorOptions(at::kFloat));
}

void TensorModel::require_unchanged() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto& [name, tensor] = parameters_[i];
    if (tensor.scalar_type() == at::kFloat && tensor.sizes() == at::IntArrayRef(sizes_[i])) continue;
    throw ConfigError(fmt::format(
        "parameter {} is {} of shape [{}] now, and was Float of shape [{}] when the module was wrapped; wrap it again",
        name, c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "), fmt::join(sizes_[i], ", ")));
  }
}

void TensorModel::read(std::span<float> into) const {
  require_unchanged();
  for (std::size_t i = 0; i < parameters_.size(); ++i) place_of(i, into.data()).copy_(parameters_[i].second.detach());
}

void TensorModel::write(std::span<const float> from) const {
  require_unchanged();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].second.detach().copy_(place_of(i, const_cast<float*>(from.data())));
  }
}

}  // namespace sotto::python
