#pragma once

#include "sotto/aggregate/aggregator.h"
#include "sotto/core/options.h"

namespace sotto {

struct PowerOptions {
  std::int64_t rank = 1;
  double min_rate = 2;
  void visit(OptionVisitor& v) {
    v.option("rank", rank, "columns of each factor", {1, 64});
    v.option("min_rate", min_rate, "matrices that would shrink by a smaller factor than this are sent dense",
             Bounds::at_least(0));
  }
};

// PowerSGD (Vogels, Karimireddy, Jaggi, NeurIPS 2019). A tensor of shape (a, b, c ..) is a matrix M of a rows and
// b*c*.. columns, which holds gradient and memory. Q is kept from step to step:
//   P = M Q, mean over ranks;  P is made orthonormal;  Q = M^T P, mean over ranks;  the result is P Q^T
// M - P Q^T stays in the memory. One all-reduce carries all P of a bucket, and another one all Q. Tensors that are no
// matrices, or that would shrink by a factor below min_rate, are sent uncompressed along with P.
std::unique_ptr<Aggregator> make_power(const PowerOptions& options, AggregatorParts parts);
// Why a memory does not suit it; empty if it does.
std::string power_suits(const PowerOptions& options, const AggregatorParts& parts);
// Implements MethodTraits::bytes_of.
std::size_t power_bytes(const AnyOptions& options, Codec& codec, const Layout& bucket);

}  // namespace sotto
