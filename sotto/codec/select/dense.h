#pragma once

#include <cstddef>
#include <cstdint>

#include "sotto/core/options.h"

namespace sotto {

// The option that all selections have, whose meaning selection.h gives it.
struct DenseOption {
  std::int64_t dense = 1024;
  void visit_dense(OptionVisitor& v) {
    v.option(
        "dense", dense,
        "one-dimensional segments of at most so many values, such as biases, are sent whole, beside what is selected",
        Bounds{0, 4294967295.0});
  }
  std::size_t most_dense() const { return static_cast<std::size_t>(dense); }
};

}  // namespace sotto
