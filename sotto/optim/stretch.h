#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "sotto/core/state.h"

namespace sotto {

// Programmer's error unless this is a stretch of `all` parameters, and both spans are of its size.
void require_stretch(std::span<const float> parameters, std::span<const float> mean, std::size_t begin,
                     std::size_t all);

// Visits a vector that has the same length ever after; FileError when another was read, and it is as long as before.
void visit_vector(StateVisitor& visitor, std::string_view name, std::vector<float>& values);

}  // namespace sotto
