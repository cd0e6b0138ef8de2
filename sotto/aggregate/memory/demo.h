#pragma once

#include "sotto/aggregate/memory/memory.h"
#include "sotto/core/options.h"

namespace sotto {

struct DemoOptions {
  double decay = 0.999;
  void visit(OptionVisitor& v) {
    v.option("decay", decay, "share of what was not sent that is kept for the next step", Bounds::share());
  }
};

// Decoupled momentum (Peng, Quesnelle, Kingma, DeMo, 2024): a momentum of each rank's own, m = decay * m + g, of which
// the largest components are sent and taken off; what is slow and small stays local. The learning rate is outside. The
// optimiser has no momentum beside this one, and in the paper takes the signs of the mean.
std::unique_ptr<Memory> make_demo(const DemoOptions& options, const MemoryParts& parts);

}  // namespace sotto
