#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "sotto/core/hash.h"
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
inline void cut_pieces(const Layout& layout, Range part, std::vector<Piece>& pieces) {
  if (part.begin > part.end || part.end > layout.size()) throw std::logic_error("a part reaches beyond its bucket");
  pieces.clear();
  const auto segments = layout.segments();
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Range whole = segments[i].range();
    const Range range{std::max(whole.begin, part.begin), std::min(whole.end, part.end)};
    if (range.begin < range.end) pieces.push_back({i, range, range.begin - whole.begin});
  }
}

// The identity of (codec, layout, part), as it stands in a header.
inline std::uint32_t contract_hash(std::string_view expression, const Layout& layout, Range part) {
  Hash hash;
  hash.add(expression);
  hash.add(layout.hash());
  hash.add(std::uint64_t{part.begin});
  hash.add(std::uint64_t{part.end});
  return hash.folded();
}

}  // namespace sotto
