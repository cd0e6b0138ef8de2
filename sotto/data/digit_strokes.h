#pragma once

#include <span>

namespace sotto {

// A point that the pen passes, x to the right and y downwards, the digit about as high as 1. The pen turns smoothly
// there, unless it is a corner.
struct Knot {
  float x, y;
  bool corner = false;
};

// One way of writing a digit: strokes, pen up between them. The weight says how common it is among the ways of its
// digit.
struct Way {
  float weight;
  std::span<const std::span<const Knot>> strokes;
};

// REQUIRES 0 <= digit <= 9.
std::span<const Way> ways_of_writing(int digit);

inline constexpr std::size_t max_knots = 16;  // of any stroke

}  // namespace sotto
