#pragma once

#include <cstddef>
#include <string>

#include "sotto/core/options.h"

namespace sotto {

// The option that all selections have, whose meaning selection.h gives it.
struct DenseOption {
  std::string dense = "1024";
  void visit_dense(OptionVisitor& v) {
    v.option("dense", dense,
             "one-dimensional segments of at most so many values, such as biases, are sent whole, beside what is "
             "selected; all: however long they are");
  }
  std::string problem() const;     // what is wrong with it; empty when nothing is
  std::size_t most_dense() const;  // REQUIRES no problem()
};

}  // namespace sotto
