#pragma once

#include "sotto/aggregate/aggregator.h"

namespace sotto {

// Chooses by bytes, rounds and error. A linear codec is all-reduced, because no message can be smaller than its share
// of a sum. Any other codec is gathered until a step is complete, in which GatheredStep measures its messages, and what
// a second encoding does to the mean. Then scatter_reduce or sparse takes over if it is cheaper. The cost is (bytes +
// 16 KiB per round and bucket) * (steps that the second encoding makes of one). With a memory these steps count as one,
// because losses are sent later; without a memory scatter_reduce is not chosen if they are more than 1.5. The choice
// does not depend on time, is the same on all ranks, and is part of the state: a resumed run does not measure again.
std::unique_ptr<Aggregator> make_auto(AggregatorParts parts);

}  // namespace sotto
