#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/codec/codec.h"
#include "sotto/core/random.h"
#include "sotto/core/workers.h"

namespace sotto {

// k = share_of(ratio, n) of n numbers at random, each of them with probability k/n exactly: 0 .. n-1 lie on a circle,
// which is cut into k stretches of n/k from a random place on, and one is taken of each. Writes first + those numbers,
// ascending, and returns k: time is k, not n. The random numbers are at(number), for the place, and quick(number + s),
// for stretch s. REQUIRES n < 2^32.
std::size_t take_random_share(Workers& workers, double ratio, std::size_t n, const ElementStream& stream,
                              std::uint32_t number, std::uint32_t first, std::uint32_t* out);

// What it promises of groups of these numbers of atoms that share one norm: as they are, E|C(x)-x|^2 = (1 - k/n) |x|^2;
// times n/k (`unbiased`), (n/k - 1) |x|^2.
Contract contract_of_random_share(double ratio, bool unbiased, std::span<const std::size_t> atoms);

}  // namespace sotto
