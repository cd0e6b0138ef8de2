#include "app/cli/report/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sotto {
namespace {

// Dots that are set one by one, two across and four down in a character.
class Canvas {
 public:
  Canvas(int columns, int lines) : columns_(columns), lines_(lines), cells_(lines, std::vector<int>(columns)) {}

  int width() const { return 2 * columns_; }
  int height() const { return 4 * lines_; }

  void set(int x, int y) {
    static constexpr int bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};  // of Unicode's Braille
    cells_.at(y / 4).at(x / 2) |= bits[y % 4][x % 2];
  }
  // Sets all dots on the line between two dots, so that a steep curve has no holes.
  void join(int x1, int y1, int x2, int y2) {
    const int steps = std::max({std::abs(x2 - x1), std::abs(y2 - y1), 1});
    for (int i = 0; i <= steps; ++i) set(x1 + (x2 - x1) * i / steps, y1 + (y2 - y1) * i / steps);
  }
  std::string line(int number) const {
    std::string text;
    for (const int cell : cells_[number]) {
      if (cell == 0) {
        text += ' ';
      } else {  // U+2800 and the bits, as UTF-8
        text += {static_cast<char>(0xE2), static_cast<char>(0xA0 | cell >> 6), static_cast<char>(0x80 | (cell & 0x3F))};
      }
    }
    return text;
  }

 private:
  int columns_, lines_;
  std::vector<std::vector<int>> cells_;
};

int dot(double share, int dots) { return std::clamp(static_cast<int>(std::lround(share * (dots - 1))), 0, dots - 1); }

std::string label(double value) { return fmt::format("{:.4g}", value); }

}  // namespace

std::vector<std::string> to_lines(const Plot& plot, int width, int height) {
  Axis x(plot.log_x), y(plot.log_y);
  for (const PlotPoint& point : plot.series.front().points) {
    if (!y.shows(point.y)) continue;
    x.cover(point.x);
    y.cover(point.y);
  }
  x.widen(0);
  y.widen(0);
  std::size_t margin = 0;
  for (const double tick : y.ticks()) margin = std::max(margin, label(tick).size());
  Canvas canvas(width - static_cast<int>(margin) - 2, height - 3);

  int last_x = -1, last_y = 0;  // -1: the last point is not shown
  for (const PlotPoint& point : plot.series.front().points) {
    const bool shown = x.shows(point.x) && y.shows(point.y);
    const int at_x = shown ? dot(x.share(point.x), canvas.width()) : -1;
    const int at_y = shown ? canvas.height() - 1 - dot(y.share(point.y), canvas.height()) : 0;
    if (shown) canvas.join(last_x < 0 ? at_x : last_x, last_x < 0 ? at_y : last_y, at_x, at_y);
    last_x = at_x;
    last_y = at_y;
  }

  std::vector<std::string> lines{plot.title};
  std::vector<std::string> labels(height - 3);
  for (const double tick : y.ticks()) {
    const int line = (canvas.height() - 1 - dot(y.share(tick), canvas.height())) / 4;
    labels.at(line) = label(tick);
  }
  for (int i = 0; i < height - 3; ++i) {
    lines.push_back(
        fmt::format("{:>{}} {}{}", labels[i], margin, labels[i].empty() ? "\u2502" : "\u2524", canvas.line(i)));
  }
  std::string axis, below(width, ' ');
  for (int i = 0; i < canvas.width() / 2; ++i) axis += "\u2500";
  lines.push_back(fmt::format("{:>{}} \u2514{}", "", margin, axis));
  std::size_t free_from = 0;
  for (const double tick : x.ticks()) {
    const std::string text = label(tick);
    const std::size_t column = margin + 2 + dot(x.share(tick), canvas.width()) / 2;
    const std::size_t begin = column - std::min(column, text.size() / 2);
    if (begin < free_from || begin + text.size() > below.size()) continue;
    below.replace(begin, text.size(), text);
    free_from = begin + text.size() + 1;
  }
  below.erase(below.find_last_not_of(' ') + 1);
  const std::size_t last_column = static_cast<std::size_t>(width) - std::min<std::size_t>(width, plot.x_label.size());
  if (below.size() + 1 < last_column) below.append(last_column - below.size(), ' ') += plot.x_label;
  lines.push_back(below);
  return lines;
}

}  // namespace sotto
