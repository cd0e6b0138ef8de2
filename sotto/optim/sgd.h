#pragma once

#include <memory>
#include <string>

#include "sotto/core/options.h"
#include "sotto/optim/optimiser.h"

namespace sotto {

struct SgdOptions {
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0;
  double dampening = 0;
  void visit(OptionVisitor& v) {
    v.option("momentum", momentum, "share of the previous step's direction that is kept", {0, 1, false, true});
    v.option("nesterov", nesterov, "use Nesterov's momentum, which looks one step ahead");
    v.option("weight-decay", weight_decay, "how strongly parameters are pulled towards zero", Bounds::at_least(0));
    v.option("dampening", dampening, "share of each direction that the momentum leaves out, after the first step",
             {0, 1, false, true});
  }
  std::string problem() const;  // an error that the ranges of single options cannot express; empty: none
};

// Computes the same as torch.optim.SGD:
//   d = g + weight_decay*p; v = momentum*v + (1-dampening)*d; p -= lr * (nesterov ? d + momentum*v : v)
// In the first step v = d.
//
// With asynchronous servers (take_shares()) a momentum of all workers' gradients would push along old gradients, while
// new gradients come late. Training would then diverge at rates that it bears when ranks are in step (Mitliagkas et
// al., "Asynchrony begets momentum", Allerton 2016). Therefore each worker makes the momentum of its gradients, and
// offers Nesterov's direction. The servers' model is then the point to which the momenta of all workers will carry it,
// and the next gradient is taken there (DANA-Slim: Hakimi et al., "Taming momentum in a distributed asynchronous
// environment", 2019).
//   v = momentum*v + (1-dampening)*g; offered d = (1-dampening)*g + momentum*v
//   p -= lr * (d + (1-dampening)/(1-momentum) * weight_decay*p)
std::unique_ptr<Optimiser> make_sgd(const SgdOptions& options, const Layout& layout);

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
