#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sotto/capi/stepper.h"

namespace sotto::python {

// The parameters of a user's module, and the layout of a flat vector of ours that holds copies of them.
class TensorModel final : public FlatModel {
 public:
  // ConfigError for parameters that are not dense or not of float32.
  explicit TensorModel(std::vector<std::pair<std::string, at::Tensor>> parameters);

  const Layout& layout() const override { return layout_; }
  std::vector<std::pair<std::string, at::Tensor>> const& parameters() const { return parameters_; }
  // Copy the parameters to, and from, a vector of this layout. ConfigError if a parameter has changed its shape or
  // type.
  void read(std::span<float> into) const override;
  void write(std::span<const float> from) const override;

 private:
  void require_unchanged() const;
  at::Tensor place_of(std::size_t parameter, float* values) const;

  std::vector<std::pair<std::string, at::Tensor>> parameters_;
  std::vector<std::vector<std::int64_t>> sizes_, strides_;
  Layout layout_;
};

}  // namespace sotto::python
