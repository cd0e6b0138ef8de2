#pragma once

#include <cstddef>
#include <span>

namespace sotto {

// std::logic_error unless both spans have the same length and, starting at `begin`, end within `all` parameters.
void require_stretch(std::span<const float> parameters, std::span<const float> mean, std::size_t begin,
                     std::size_t all);

}  // namespace sotto
