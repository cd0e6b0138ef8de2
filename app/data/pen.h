#pragma once

#include <algorithm>
#include <span>
#include <vector>

namespace sotto {

struct Point {
  float x, y;
};

// Draws anti-aliased lines of a round pen on a small grey canvas, from 0 (paper) to 1 (ink). Pixel (i, j) is the square
// around (j + .5, i + .5).
class Canvas {
 public:
  Canvas(int width, int height)
      : width_(width), height_(height), ink_(static_cast<std::size_t>(width) * static_cast<std::size_t>(height)) {}
  void clear() { std::fill(ink_.begin(), ink_.end(), 0.0F); }
  // A line whose radius changes from `from_radius` to `to_radius`; `soft` is the width of its blurred edge. All lengths
  // are in pixels. Where lines overlap, the darker one counts.
  void line(Point from, float from_radius, Point to, float to_radius, float soft);
  std::span<const float> ink() const { return ink_; }

 private:
  int width_, height_;
  std::vector<float> ink_;
};

}  // namespace sotto
