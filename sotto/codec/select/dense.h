#pragma once

#include <cstddef>
#include <string>

#include "sotto/core/options.h"

namespace sotto {

// The option `dense` of all selections; selection.h explains it.
struct DenseOption {
  std::string dense = "1024";
  void visit_dense(OptionVisitor& v) {
    v.option(
        "dense", dense,
        "one-dimensional segments, such as biases, of at most this many values are sent whole; all: of any length");
  }
  std::string problem() const;     // what is wrong with the option; empty if nothing
  std::size_t most_dense() const;  // REQUIRES no problem()
};

}  // namespace sotto
