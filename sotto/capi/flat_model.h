#pragma once

#include <span>

#include "sotto/core/layout.h"

namespace sotto {

// The parameters of a user's model, wherever they are, as a flat vector of floats.
class FlatModel {
 public:
  FlatModel() = default;
  virtual ~FlatModel() = default;
  FlatModel(const FlatModel&) = delete;
  FlatModel& operator=(const FlatModel&) = delete;

  virtual const Layout& layout() const = 0;
  // Copy the parameters to, and from, a vector of this layout. ConfigError if the model is another one than before.
  virtual void read(std::span<float> into) const = 0;
  virtual void write(std::span<const float> from) const = 0;
};

}  // namespace sotto
