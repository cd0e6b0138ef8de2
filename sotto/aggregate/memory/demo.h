#pragma once

#include "sotto/aggregate/memory/memory.h"
#include "sotto/core/options.h"

namespace sotto {

struct DemoOptions {
  double decay = 0.999;
  void visit(OptionVisitor& v) {
    v.option("decay", decay, "share of the unsent values that is kept for the next step", Bounds::share());
  }
};

// Decoupled momentum (Peng, Quesnelle, Kingma, DeMo, 2024). Each rank has its own momentum m = decay * m + g. The
// largest components are sent and subtracted from m; what is slow and small stays local. The learning rate is applied
// outside. The optimiser must have no momentum; in the paper it takes the signs of the mean.
std::unique_ptr<Memory> make_demo(const DemoOptions& options, const MemoryParts& parts);

}  // namespace sotto
