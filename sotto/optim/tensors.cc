#include "sotto/optim/tensors.h"

#include <algorithm>
#include <stdexcept>

namespace sotto {

Tensors::Tensors(const Layout& layout) : size_(layout.size()) {
  for (const Segment& segment : layout.segments()) tensors_.push_back({segment.range(), segment.shape.size() <= 1});
}

std::span<const Tensors::Tensor> Tensors::within(std::size_t begin, std::size_t size) const {
  if (begin > size_ || size > size_ - begin) throw std::logic_error("Optimiser: a stretch after the last parameter");
  const auto first = std::ranges::partition_point(tensors_, [&](const Tensor& t) { return t.range.end <= begin; });
  const auto last =
      std::ranges::partition_point(tensors_, [&](const Tensor& t) { return t.range.begin < begin + size; });
  if (first >= last) return {};
  if (first->range.begin < begin || (last - 1)->range.end > begin + size) {
    throw std::logic_error("Optimiser: a stretch that cuts a tensor");
  }
  return {first, last};
}

}  // namespace sotto
