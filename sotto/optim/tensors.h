#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sotto/core/layout.h"

namespace sotto {

// The tensors of a flat vector, for optimisers whose steps depend on whole tensors.
class Tensors {
 public:
  struct Tensor {
    Range range;  // of the flat vector
    bool vector;  // has at most one dimension: a bias, or the scale of a norm
  };

  explicit Tensors(const Layout& layout);

  // The tensors of the stretch of `size` elements that starts at `begin`. std::logic_error if one is cut, or if the
  // stretch does not end within the flat vector.
  std::span<const Tensor> within(std::size_t begin, std::size_t size) const;

 private:
  std::vector<Tensor> tensors_;
  std::size_t size_;
};

}  // namespace sotto
