#include "sotto/codec/pieces.h"

#include <algorithm>
#include <stdexcept>

#include "sotto/core/hash.h"

namespace sotto {

void cut_pieces(const Layout& layout, Range part, std::vector<Piece>& pieces) {
  if (part.begin > part.end || part.end > layout.size()) throw std::logic_error("a part reaches beyond its bucket");
  pieces.clear();
  const auto segments = layout.segments();
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Range whole = segments[i].range();
    const Range range{std::max(whole.begin, part.begin), std::min(whole.end, part.end)};
    if (range.begin < range.end) pieces.push_back({i, range, range.begin - whole.begin});
  }
}

std::uint32_t contract_hash(std::string_view expression, const Layout& layout, Range part) {
  Hash hash;
  hash.add(expression);
  hash.add(layout.hash());
  hash.add(std::uint64_t{part.begin});
  hash.add(std::uint64_t{part.end});
  return hash.folded();
}

}  // namespace sotto
