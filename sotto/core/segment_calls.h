#pragma once

#include <cstddef>
#include <functional>

namespace sotto {

// What a model calls while it computes a gradient, on the thread that computes, with an index into the segments of its
// layout. Either may be empty.
struct SegmentCalls {
  std::function<void(std::size_t segment)> needed = {};  // forward is about to read the parameters of this segment
  std::function<void(std::size_t segment)> ready = {};   // the gradient of this segment is finished
};

}  // namespace sotto
