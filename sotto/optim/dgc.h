#pragma once

#include <memory>

#include "sotto/core/options.h"
#include "sotto/optim/optimiser.h"

namespace sotto {

struct DgcOptions {
  double weight_decay = 0;
  double decay_momentum = 0.9;
  bool nesterov = false;
  void visit(OptionVisitor& v) {
    v.option("weight-decay", weight_decay, "how strongly parameters are pulled towards zero", Bounds::at_least(0));
    v.option("decay-momentum", decay_momentum, "momentum of the weight decay", {0, 1, false, true});
    v.option("nesterov", nesterov, "use Nesterov's momentum for it, as with momentum(nesterov=true)");
  }
};

// The step of Deep Gradient Compression (Lin et al., ICLR 2018). Each rank applies momentum before it sends, so the
// exchanged mean g gets no further momentum here. Weight decay has a separate momentum:
//   w = weight_decay*p; d = decay_momentum*d + w; p -= lr * (g + (nesterov ? w + decay_momentum*d : d))
// Together this equals `sgd` with momentum and weight decay.
std::unique_ptr<Optimiser> make_dgc(const DgcOptions& options, const Layout& layout);

}  // namespace sotto
