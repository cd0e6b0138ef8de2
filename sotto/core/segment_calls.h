#pragma once

#include <cstddef>
#include <functional>

namespace sotto {

// Callbacks of a model while it computes a gradient, made on the computing thread. `segment` is an index into its
// layout's segments. Either callback may be empty.
struct SegmentCalls {
  std::function<void(std::size_t segment)> needed = {};  // forward is about to read the parameters of this segment
  std::function<void(std::size_t segment)> ready = {};   // the gradient of this segment is finished
};

}  // namespace sotto
