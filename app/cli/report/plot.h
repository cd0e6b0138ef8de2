#pragma once

#include <array>
#include <limits>
#include <span>
#include <string>
#include <string_view>
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

// One axis of a plot: maps values to shares of its length. A logarithmic one leaves out values that are not positive.
class Axis {
 public:
  explicit Axis(bool logarithmic) : logarithmic_(logarithmic) {}

  bool shows(double value) const;
  void cover(double value);
  // Adds a margin on both sides, as a share of the length, so that points do not lie on the frame.
  void widen(double margin);
  double share(double value) const { return (scaled(value) - low_) / (high_ - low_); }
  std::vector<double> ticks() const;

 private:
  double scaled(double value) const;
  std::vector<double> decades() const;
  std::vector<double> steps() const;

  bool logarithmic_;
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
};

// The first series of the plot as text for a terminal, in `width` columns and `height` lines with axes and title. Each
// character has two columns of four dots (Braille). REQUIRES width >= 30, height >= 6.
std::vector<std::string> to_lines(const Plot& plot, int width, int height);

// Colours that colour-blind readers can tell apart, also in grey (Okabe, Ito).
inline constexpr std::array<std::string_view, 6> plot_colours{"#0072b2", "#d55e00", "#009e73",
                                                              "#cc79a7", "#e69f00", "#56b4e9"};
// `content` on white, as a self-contained SVG document.
std::string svg_document(double width, double height, std::string_view content);

}  // namespace sotto
