#pragma once

#include "sotto/aggregate/aggregator.h"
#include "sotto/core/options.h"

namespace sotto {

struct FetchOptions {
  double ratio = 0.01;
  double momentum = 0.9;
  bool masking = true;
  void visit(OptionVisitor& v) {
    v.option("ratio", ratio, "share of the elements of each segment that a step moves", Bounds::share());
    v.option("momentum", momentum, "share of the last step's momentum that is kept", {0, 1, false, true});
    v.option("masking", masking, "set the momentum to 0 where a step moved, unless it moves all (ratio=1)");
  }
};

// FetchSGD (Rothchild et al., ICML 2020): momentum and error are kept as sketches, which are the same on every rank. S
// is the linear form of the codec that follows, as in "fetch(0.01) | count_sketch(rows=5, columns=20%)":
//   s = mean over ranks of S(g);  u = momentum*u + s;  e = e + u
//   d = the largest elements of S^-1(e);  e = e - S(d);  u = 0 where S(d) is not 0 (masking);  d is the result
// The learning rate is applied outside, and the optimiser must have no momentum. Bytes sent per rank: one all-reduce of
// the form.
std::string fetch_suits(const FetchOptions& options, const AggregatorParts& parts);
std::unique_ptr<Aggregator> make_fetch(const FetchOptions& options, AggregatorParts parts);
// Implements MethodTraits::bytes_of.
std::size_t fetch_bytes(const AnyOptions& options, Codec& codec, const Layout& bucket);

}  // namespace sotto
