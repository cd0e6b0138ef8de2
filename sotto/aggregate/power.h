#pragma once

#include "sotto/aggregate/aggregator.h"
#include "sotto/core/options.h"

namespace sotto {

struct PowerOptions {
  std::int64_t rank = 1;
  double min_rate = 2;
  void visit(OptionVisitor& v) {
    v.option("rank", rank, "columns of each factor", {1, 64});
    v.option("min_rate", min_rate, "matrices that would shrink less than this go dense", Bounds::at_least(0));
  }
};

// PowerSGD (Vogels, Karimireddy, Jaggi, NeurIPS 2019). A tensor (a, b, c ..) is a matrix M of a rows and b*c*.. columns
// of gradient and memory; Q is kept from step to step:
//   P = M Q, mean over ranks;  P is made orthonormal;  Q = M^T P, mean over ranks;  the result is P Q^T
// What P Q^T is not stays in the memory. All P of a bucket are one all-reduce, and all Q; what is no matrix, or would
// shrink less than min_rate, goes along with P as it is.
std::unique_ptr<Aggregator> make_power(const PowerOptions& options, AggregatorParts parts);
// MethodTraits::bytes_of.
std::size_t power_bytes(const AnyOptions& options, Codec& codec, const Layout& bucket);

}  // namespace sotto
