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

// Momentum before a codec that draws. Each rank offers the momentum u = m u + g of its own gradients, and holds nothing
// back: the mean of the ranks' momenta is the momentum of their mean, so with an exact codec this is momentum after
// averaging. With an unbiased one the result is the same on average, and its noise is that of one message. Momentum
// after the codec adds up the noise of 1 / (1 - m) messages, and each of their gradients is larger beside what training
// gains from it, because momentum averages the differences between batches. The optimiser must have no momentum of its
// own.
std::unique_ptr<Memory> make_velocity(const VelocityOptions& options, const MemoryParts& parts);

}  // namespace sotto
