#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "sotto/core/layout.h"

namespace sotto {

// The precision in which the layers of a network compute during training. Parameters, gradients and the loss are always
// floats.
enum class Precision : std::uint8_t { f32, bf16, f16 };

// A model as flat vectors: parameters, gradient, and buffers (batch-norm statistics). Every torch parameter, its .grad
// and every float buffer is a view into them, so the network computes with the values written here. Derived classes
// compute, each with its kind of examples: see ImageModel. Headers of models do not include torch.
class Model {
 public:
  virtual ~Model() = default;

  virtual const std::string& name() const = 0;      // its name with options
  virtual const Layout& layout() const = 0;         // in registration order
  virtual const Layout& buffer_layout() const = 0;  // floats only; counters such as num_batches_tracked are left out
  virtual std::span<float> parameters() = 0;
  virtual std::span<float> gradient() = 0;
  virtual std::span<float> buffers() = 0;

  // From now on gradients are computed with this precision, by torch's autocast. ConfigError, about the option `amp`,
  // for a model without layers.
  virtual void compute_in(Precision precision) = 0;
};

}  // namespace sotto
