#pragma once

#include <cstddef>
#include <string>

#include "sotto/codec/codec.h"

namespace sotto {

// The contract of `then` after `first`. A contraction as `first` is taken to be a projection (a selection: the kept and
// the dropped part are orthogonal), and `then` sees only the kept part.
Contract compose(const Contract& first, const Contract& then);

// The contract of a sum of `atoms` orthogonal products u v^T, if a stage with contract `factors` is applied to each
// factor.
Contract of_products(const Contract& factors, std::size_t atoms);

// The delta of a contraction, in whatever form the codec declares it. 0: the error may be as large as the whole vector.
double contraction_of(const Contract& contract);

// "unbiased, variance <= 1.5 |x|^2; gradients and differences; parts cut at blocks of 512"
std::string describe(const Contract& contract);

}  // namespace sotto
