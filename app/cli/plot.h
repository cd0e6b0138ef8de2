#pragma once

#include <span>
#include <string>
#include <vector>

namespace sotto {

struct PlotPoint {
  double x = 0, y = 0;
  std::string label;  // next to the point; empty: none
};

// A line through points.
struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points;
};

// One pair of axes. A logarithmic axis leaves out values that are not positive.
struct Plot {
  std::string title, x_label, y_label;
  bool log_x = false, log_y = false;
  std::vector<PlotSeries> series;
};

// The plots side by side, as a self-contained SVG document.
std::string to_svg(std::span<const Plot> plots);

}  // namespace sotto
