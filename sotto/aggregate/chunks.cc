#include "sotto/aggregate/chunks.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "sotto/codec/pieces.h"

namespace sotto {
namespace {

// How many elements of a segment belong together: cuts are at multiples of it.
std::size_t grain_of(const Segment& segment, const Contract& contract) {
  const std::size_t rows = segment.shape.empty() ? 1 : static_cast<std::size_t>(segment.shape.front());
  switch (contract.grain) {
    case Contract::Grain::element: break;
    case Contract::Grain::block: return contract.block;
    case Contract::Grain::row: return segment.numel() / std::max<std::size_t>(rows, 1);
    case Contract::Grain::segment: return segment.numel();
  }
  return 1;
}

std::size_t nearest(std::size_t target, std::size_t low, std::size_t high) {
  return target - low <= high - target ? low : high;
}

std::size_t nearest_cut(const Layout& layout, const Contract& contract, std::size_t target) {
  if (contract.grain == Contract::Grain::element) {
    const std::size_t low = target / Layout::alignment * Layout::alignment;
    return nearest(target, low, std::min(low + Layout::alignment, layout.size()));
  }
  const auto segments = layout.segments();
  const auto next = std::ranges::upper_bound(segments, target, {}, &Segment::offset);
  if (next == segments.begin()) return 0;
  const Segment& segment = *std::prev(next);
  const std::size_t end = next == segments.end() ? layout.size() : next->offset;
  if (segment.numel() == 0) return nearest(target, segment.offset, end);
  const std::size_t grain = std::max<std::size_t>(grain_of(segment, contract), 1);
  const std::size_t within = std::min(target - segment.offset, segment.numel() - 1);
  const std::size_t low = segment.offset + within / grain * grain;
  const std::size_t high = low + grain >= segment.range().end ? end : low + grain;
  return nearest(target, low, high);
}

}  // namespace

std::vector<Range> cut_chunks(const Layout& layout, const Contract& contract, int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  std::vector<Range> chunks(count);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const bool last = i + 1 == count;
    const std::size_t end = last ? layout.size() : nearest_cut(layout, contract, layout.size() * (i + 1) / count);
    chunks[i] = {begin, end};
    begin = end;
  }
  return chunks;
}

Layout chunk_layout(const Layout& layout, Range chunk) {
  std::vector<Piece> pieces;
  cut_pieces(layout, chunk, pieces);
  std::vector<Segment> segments;
  for (const Piece& piece : pieces) {
    Segment segment = layout.segments()[piece.segment];
    const std::size_t size = piece.range.size();
    if (size != segment.numel()) {
      const std::size_t row = segment.numel() / static_cast<std::size_t>(segment.shape.front());
      if (segment.shape.size() > 1 && piece.first % row == 0 && size % row == 0) {
        segment.shape.front() = static_cast<std::int64_t>(size / row);
      } else {  // one row: a single dimension would look like a whole bias
        segment.shape = {1, static_cast<std::int64_t>(size)};
      }
    }
    segment.offset = piece.range.begin - chunk.begin;
    segments.push_back(std::move(segment));
  }
  return {std::move(segments), chunk.size()};
}

}  // namespace sotto
