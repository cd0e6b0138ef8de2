#pragma once

#include "sotto/aggregate/memory/memory.h"
#include "sotto/core/options.h"

namespace sotto {

struct MomentumOptions {
  double m = 0.9;
  bool nesterov = false;
  bool masking = true;
  double clip = 0;
  void visit(OptionVisitor& v) {
    v.option("m", m, "share of the last step's momentum that is kept", {0, 1, false, true});
    v.option("nesterov", nesterov, "look one step ahead");
    v.option("masking", masking, "forget the momentum of elements that a selection sent");
    v.option("clip", clip, "largest l2 norm of a segment's gradient, times the root of the ranks; 0: any",
             Bounds::at_least(0));
  }
};

// Deep Gradient Compression (Lin et al., ICLR 2018): momentum of each rank's own gradient, made before what it would
// have moved is held back, u = m u + g and v = v + u (nesterov: u = m (u + g), v = v + u + g). v is offered, and v -
// sent stays. The optimiser has no momentum beside this one.
//
// masking: u = 0 at the elements that a selection chose, so that what moved them late does not go on. What is sent in
// every step (segments that a selection sends whole, all of them where nothing selects) keeps its u, which then is
// momentum after averaging: the mean of the ranks' momenta is the momentum of their mean.
//
// clip: before it is added, a gradient is shortened to the l2 norm clip / sqrt(ranks), for each segment by itself: so
// that it depends neither on how segments fall into buckets nor on those that come later.
std::unique_ptr<Memory> make_momentum(const MomentumOptions& options, const MemoryParts& parts);

}  // namespace sotto
