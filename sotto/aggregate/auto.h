#pragma once

#include "sotto/aggregate/aggregator.h"

namespace sotto {

// Chooses by bytes. A linear codec is all-reduced: no message can be smaller than its share of a sum. Any other is
// gathered in its first step, which measures its messages; then scatter_reduce takes over where it would send at most
// half as much, for it encodes twice and takes two rounds; or sparse, which cuts regions wherever entries are, where
// chunks of whole blocks or segments would be so uneven that it sends less than that. The choice is that of the whole
// group, and is part of the state: a resumed run does not measure again.
std::unique_ptr<Aggregator> make_auto(AggregatorParts parts);

// What scatter_reduce sends from the rank that sends most, when the message of bucket b has bytes[b] bytes.
double scatter_reduce_bytes(const AggregatorParts& parts, std::span<const double> bytes);

}  // namespace sotto
