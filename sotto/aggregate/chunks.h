#pragma once

#include <vector>

#include "sotto/codec/codec.h"
#include "sotto/core/layout.h"

namespace sotto {

// A bucket cut into one chunk a rank, as evenly as the codec's grain allows: each border is the allowed place nearest
// to an even cut, for elements a multiple of Layout::alignment. Chunks are empty where there are fewer pieces than
// ranks.
std::vector<Range> cut_chunks(const Layout& layout, const Contract& contract, int ranks);

// A chunk as a bucket of its own. Segments that are cut keep their name, and their rows where whole rows are left; else
// they are one-dimensional.
Layout chunk_layout(const Layout& layout, Range chunk);

// Who owns a chunk: the numbers rotate from bucket to bucket, so that large segments do not fall to one rank.
inline int owner_of(int chunk, int bucket, int ranks) { return (chunk + bucket) % ranks; }
inline int chunk_of(int owner, int bucket, int ranks) { return (owner + ranks - bucket % ranks) % ranks; }

}  // namespace sotto
