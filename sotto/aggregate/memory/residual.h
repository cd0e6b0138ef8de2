#pragma once

#include "sotto/aggregate/memory/memory.h"
#include "sotto/core/options.h"

namespace sotto {

// Error feedback (Seide et al., 2014): offers p = e + g, and keeps e = p - sent. The learning rate is applied outside:
// e holds gradients, so a change of the rate applies to what was held back, too.
std::unique_ptr<Memory> make_error_feedback(const NoOptions& options, const MemoryParts& parts);

// Mem-SGD (Stich, Cordonnier, Jaggi, NeurIPS 2018): error feedback with the learning rate inside. mem = mem + rate * g
// is the change of the model that is still owed, so a change of the rate does not touch what was held back before.
// Because the optimiser multiplies what is sent by the rate, the memory keeps e = mem / rate, and rescales e when the
// rate changes. If the rate never changes, this is `ef`.
std::unique_ptr<Memory> make_memsgd(const NoOptions& options, const MemoryParts& parts);

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
