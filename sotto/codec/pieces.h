#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "sotto/core/layout.h"

namespace sotto {

// The part of one segment that lies in a part of a bucket. Stages treat every piece on its own; the padding between
// pieces is never sent.
struct Piece {
  std::size_t segment = 0;  // its number in the layout
  Range range;              // elements of the bucket
  std::size_t first = 0;    // number of the piece's first element within the segment
};

// The pieces of `part`, in ascending order, none empty. REQUIRES part within the layout (std::logic_error).
void cut_pieces(const Layout& layout, Range part, std::vector<Piece>& pieces);

// The identity of (codec, layout, part), as it stands in a header.
std::uint32_t contract_hash(std::string_view expression, const Layout& layout, Range part);

}  // namespace sotto
