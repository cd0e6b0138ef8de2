#pragma once

#include "sotto/aggregate/memory/memory.h"
#include "sotto/core/options.h"

namespace sotto {

struct MomentumOptions {
  double m = 0.9;
  bool nesterov = false;
  bool masking = true;
  double clip = 0;
  bool mean = false;
  void visit(OptionVisitor& v) {
    v.option("m", m, "share of the last step's momentum that is kept", {0, 1, false, true});
    v.option("nesterov", nesterov, "look one step ahead");
    v.option("masking", masking, "forget the momentum of elements that a selection sent");
    v.option("clip", clip, "largest l2 norm of a segment's gradient, times the root of the ranks; 0: any",
             Bounds::at_least(0));
    v.option("mean", mean, "make the momentum of the mean of all ranks, after the exchange; nothing may be left out");
  }
};

// Deep Gradient Compression (Lin et al., ICLR 2018). Each rank makes the momentum of its gradient before anything is
// held back: u = m u + g and v = v + u (nesterov: u = m (u + g), v = v + u + g). It offers v, and keeps v - sent. The
// optimiser must have no momentum.
//
// masking: u = 0 at the elements that a selection chose, so that gradients that were sent late do not move them
// further. Elements that are sent in every step (segments that a selection sends whole, or all if nothing selects) keep
// their u. For these elements this equals momentum after averaging: the mean of the ranks' momenta is the momentum of
// their mean gradient.
//
// clip: shortens each segment of a gradient to the l2 norm clip / sqrt(ranks) before it is added. Segments are clipped
// separately, so that the result depends neither on how they fall into buckets nor on segments that come later.
//
// mean: for dense steps before sparse ones. Ranks offer their gradients, and all make the same momentum of the mean.
// When sparse steps begin, each rank continues with this momentum, as in the authors' code. The mean is clipped as a
// gradient is.
std::unique_ptr<Memory> make_momentum(const MomentumOptions& options, const MemoryParts& parts);

// Whether this is `momentum` with the option `mean`.
bool is_momentum_of_mean(const MemorySpec& memory);
// The memory for dense steps that precede steps with `memory`: the same, except that `momentum` gets the option `mean`.
MemorySpec dense_memory(const MemorySpec& memory);

}  // namespace sotto
