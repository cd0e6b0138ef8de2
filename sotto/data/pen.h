#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace sotto {

struct Point {
  float x, y;
};

// Draws lines of a round pen on a small grey canvas, from 0 (paper) to 1 (ink), without steps at the edges. Pixel (i,
// j) is the square around (j + .5, i + .5).
class Canvas {
 public:
  Canvas(int width, int height)
      : width_(width), height_(height), ink_(static_cast<std::size_t>(width) * static_cast<std::size_t>(height)) {}
  void clear() { std::fill(ink_.begin(), ink_.end(), 0.0F); }
  // A line whose radius goes from one value to the other; `soft` is the width of the edge, all in pixels. Lines do not
  // add up: where they overlap, the darker one stands.
  void line(Point from, float from_radius, Point to, float to_radius, float soft);
  std::span<const float> ink() const { return ink_; }

 private:
  int width_, height_;
  std::vector<float> ink_;
};

}  // namespace sotto
