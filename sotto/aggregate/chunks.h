#pragma once

#include <vector>

#include "sotto/codec/codec.h"
#include "sotto/core/layout.h"

namespace sotto {

// Cuts a bucket into one chunk per rank, as evenly as the codec's grain allows: each border is the allowed place
// nearest to an even cut. Where the grain is an element, these places are multiples of Layout::alignment. Some chunks
// are empty if there are fewer pieces than ranks.
std::vector<Range> cut_chunks(const Layout& layout, const Contract& contract, int ranks);

// A chunk as a separate bucket. A segment that is cut keeps its name, and its rows if the chunk has whole ones;
// otherwise its part becomes a single row.
Layout chunk_layout(const Layout& layout, Range chunk);

// The chunk that a rank owns. It rotates from bucket to bucket, so that large segments do not all fall to one rank.
inline int chunk_of(int owner, int bucket, int ranks) { return (owner + ranks - bucket % ranks) % ranks; }

}  // namespace sotto
