#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace sotto {

// A point on the path of the pen: x to the right, y downwards, in units of about the digit's height. The path is smooth
// at a knot unless the knot is a corner.
struct Knot {
  float x, y;
  bool corner = false;
};

// One way of writing a digit: its strokes, one or two, with the pen up between them. The weight says how often this way
// is chosen, relative to the other ways of its digit.
struct Way {
  float weight;
  std::array<std::span<const Knot>, 2> strokes;
};

// All ways of writing this digit. REQUIRES 0 <= digit <= 9.
std::span<const Way> ways_of_writing(int digit);

inline constexpr std::size_t max_knots = 16;  // of a stroke

}  // namespace sotto
