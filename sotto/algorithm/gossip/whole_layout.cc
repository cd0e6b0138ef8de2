#include "sotto/algorithm/gossip/whole_layout.h"

#include <algorithm>
#include <vector>

namespace sotto {

Layout whole_layout(std::span<const BucketPlan> buckets) {
  std::vector<Segment> segments;
  std::size_t size = 0;
  for (const BucketPlan& plan : buckets) {
    for (Segment segment : plan.layout.segments()) {
      segment.offset += plan.range.begin;
      segments.push_back(std::move(segment));
    }
    size = std::max(size, plan.range.end);
  }
  std::ranges::sort(segments, {}, &Segment::offset);
  return {std::move(segments), size};
}

}  // namespace sotto
