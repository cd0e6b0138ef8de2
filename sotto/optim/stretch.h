#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>

namespace sotto {

// std::logic_error unless both spans have the same length and, starting at `begin`, end within `all` parameters.
inline void require_stretch(std::span<const float> parameters, std::span<const float> mean, std::size_t begin,
                            std::size_t all) {
  if (parameters.size() == mean.size() && begin <= all && parameters.size() <= all - begin) return;
  throw std::logic_error("Optimiser: a stretch that is not part of the parameters");
}

}  // namespace sotto
