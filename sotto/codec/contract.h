#pragma once

#include <cstddef>
#include <string>

#include "sotto/codec/codec.h"

namespace sotto {

// What `then` after `first` promises. A contraction that stands first is taken to be a projection (a selection: what it
// keeps and what it drops have nothing in common), of which a stage behind it sees only the kept part.
Contract compose(const Contract& first, const Contract& then);

// What a stage for the factors of products u v^T promises of the sum of `atoms` orthogonal products.
Contract of_products(const Contract& factors, std::size_t atoms);

// The delta of a contraction, in whatever form the codec declares it; 0: what it leaves out has no bound below the
// whole.
double contraction_of(const Contract& contract);

// "unbiased, variance <= 1.5 |x|^2; gradients and differences; parts cut at blocks of 512"
std::string describe(const Contract& contract);

}  // namespace sotto
