#pragma once

#include "sotto/aggregate/aggregator.h"

namespace sotto {

// Chooses by bytes, rounds and error. A linear codec is all-reduced: no message can be smaller than its share of a sum.
// Any other is gathered until a step is complete, which measures its messages and what a second encoding does to the
// mean (GatheredStep). Then scatter_reduce takes over where it is cheaper: cost is (bytes + 16 KiB a round and bucket)
// times the steps that the second encoding makes of one; behind a memory these count as one, since what is lost is sent
// later. Without a memory it must not make more than 2 of one. Or sparse takes over, where it is cheaper still. The
// choice depends on no time, is that of the whole group, and is part of the state: a resumed run does not measure
// again.
std::unique_ptr<Aggregator> make_auto(AggregatorParts parts);

}  // namespace sotto
