#include "app/data/pen.h"

#include <cmath>
#include <cstddef>

namespace sotto {

void Canvas::line(Point from, float from_radius, Point to, float to_radius, float soft) {
  const float reach = std::max(from_radius, to_radius) + 0.5F * soft;
  // Clamped as floats, so that a point far outside cannot overflow an int.
  const auto cell = [](float value, int limit) {
    return static_cast<int>(std::clamp(std::floor(value), 0.0F, static_cast<float>(limit)));
  };
  const int left = cell(std::min(from.x, to.x) - reach - 0.5F, width_);
  const int right = cell(std::max(from.x, to.x) + reach + 0.5F, width_);
  const int top = cell(std::min(from.y, to.y) - reach - 0.5F, height_);
  const int bottom = cell(std::max(from.y, to.y) + reach + 0.5F, height_);

  const float dx = to.x - from.x;
  const float dy = to.y - from.y;
  const float length2 = dx * dx + dy * dy;
  const float inverse = length2 > 0 ? 1.0F / length2 : 0.0F;
  for (int i = top; i < bottom; ++i) {
    float* const row = ink_.data() + static_cast<std::ptrdiff_t>(i) * width_;
    for (int j = left; j < right; ++j) {
      const float px = static_cast<float>(j) + 0.5F - from.x;
      const float py = static_cast<float>(i) + 0.5F - from.y;
      const float t = std::clamp((px * dx + py * dy) * inverse, 0.0F, 1.0F);  // nearest point: 0 is `from`, 1 is `to`
      const float ex = px - t * dx;
      const float ey = py - t * dy;
      const float radius = from_radius + t * (to_radius - from_radius);
      const float c = std::clamp((radius - std::sqrt(ex * ex + ey * ey)) / soft + 0.5F, 0.0F, 1.0F);
      float& ink = row[j];
      ink = std::max(ink, c * c * (3 - 2 * c));
    }
  }
}

}  // namespace sotto
