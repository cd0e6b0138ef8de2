#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "sotto/core/state.h"

namespace sotto {

// std::logic_error unless both spans have the same length and, starting at `begin`, end within `all` parameters.
void require_stretch(std::span<const float> parameters, std::span<const float> mean, std::size_t begin,
                     std::size_t all);

// Visits a vector whose length must not change. FileError when a vector of another length was read; `values` then has
// its old length again.
void visit_vector(StateVisitor& visitor, std::string_view name, std::vector<float>& values);

}  // namespace sotto
