#pragma once

#include <cstddef>
#include <span>

#include "sotto/comm/communicator.h"
#include "sotto/core/dtype.h"

namespace sotto {

// into[i] = into[i] OP from[i], for elements of `type`. REQUIRES equal lengths, which are a multiple of the element's
// size, and alignment to it. Integers wrap. 16-bit floats are combined as floats and rounded to nearest, ties to even.
// NaN wins.
void reduce_into(std::span<std::byte> into, std::span<const std::byte> from, DType type, ReduceOp op);

}  // namespace sotto
