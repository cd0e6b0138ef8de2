#pragma once

#include <cstddef>
#include <cstdint>

#include "sotto/core/random.h"

namespace sotto {

// Draws one of each of `count` equal stretches of 0 .. size - 1, and calls visit() with each, in ascending order. The
// draws are the numbers 0 .. count - 1 of the stream. REQUIRES count <= size.
template <class Visit>
void visit_sample(std::size_t size, std::size_t count, const ElementStream& stream, Visit visit) {
  for (std::size_t j = 0; j < count; ++j) {
    const std::size_t begin = j * size / count;
    const std::size_t stretch = (j + 1) * size / count - begin;
    visit(begin + ((stream.at(static_cast<std::uint32_t>(j)) * std::uint64_t{stretch}) >> 32));
  }
}

}  // namespace sotto
