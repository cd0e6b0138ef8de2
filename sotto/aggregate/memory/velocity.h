#pragma once

#include "sotto/aggregate/memory/memory.h"
#include "sotto/core/options.h"

namespace sotto {

struct VelocityOptions {
  double m = 0.9;
  void visit(OptionVisitor& v) {
    v.option("m", m, "share of the last step's momentum that is kept", {0, 1, false, true});
  }
};

// Momentum before an unbiased codec. Each rank offers the momentum u = m u + g of its gradients, and holds nothing
// back. The mean of the ranks' momenta is the momentum of their mean, so with an exact codec this is momentum after
// averaging, and with an unbiased one it is the same on average. It is less noisy than momentum after the codec:
// momentum averages the differences between batches, and a codec's noise grows with the vector that it encodes. The
// optimiser must have no momentum.
std::unique_ptr<Memory> make_velocity(const VelocityOptions& options, const MemoryParts& parts);

}  // namespace sotto
